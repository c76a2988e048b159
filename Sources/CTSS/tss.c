#define _GNU_SOURCE
#include "tss.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG "TSS2_LOG="

// The library prints each error of the TPM on standard error, a wrong passcode too, and with a higher level keys. Only a variable silences it.
//
// Not by setenv(3), which may free the array that another thread reads in getenv(3): the old array stays as it is, and a new one, which is never
// freed, takes its place.
static void silence(void) {
    size_t count = 0;
    while (environ && environ[count]) count++;
    char **variables = malloc((count + 2) * sizeof *variables);
    if (!variables) return;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], LOG, strlen(LOG)) != 0) variables[kept++] = environ[i];
    variables[kept++] = LOG "all+none";
    variables[kept] = NULL;
    __atomic_store_n(&environ, variables, __ATOMIC_RELEASE);
}

#define LOADER "libtss2-tctildr.so.0"
#define ESYS "libtss2-esys.so.0"

const char *protectfs_tss_load(struct tss_library *library) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, silence);
    // By name and not by path, from the directories of the system (dlopen(3)), as any library that a program is linked with.
    void *loader = dlopen(LOADER, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!loader) return LOADER;
    void *esys = dlopen(ESYS, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!esys) return ESYS;

    const struct {
        void *from;
        const char *name;
        void *to;
    } functions[] = {
        {loader, "Tss2_TctiLdr_Initialize", &library->TctiLdr_Initialize},
        {loader, "Tss2_TctiLdr_Finalize", &library->TctiLdr_Finalize},
#define ESYS_FUNCTION(name) {esys, "Esys_" #name, &library->name}
        ESYS_FUNCTION(Initialize),
        ESYS_FUNCTION(Finalize),
        ESYS_FUNCTION(Free),
        ESYS_FUNCTION(GetCapability),
        ESYS_FUNCTION(TR_FromTPMPublic),
        ESYS_FUNCTION(TR_GetName),
        ESYS_FUNCTION(TR_SetAuth),
        ESYS_FUNCTION(ReadPublic),
        ESYS_FUNCTION(CreatePrimary),
        ESYS_FUNCTION(StartAuthSession),
        ESYS_FUNCTION(TRSess_SetAttributes),
        ESYS_FUNCTION(FlushContext),
        ESYS_FUNCTION(NV_DefineSpace),
        ESYS_FUNCTION(NV_UndefineSpace),
        ESYS_FUNCTION(NV_ReadPublic),
        ESYS_FUNCTION(NV_Write),
        ESYS_FUNCTION(NV_Read),
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(functions[i].from, functions[i].name);
        if (!function) return functions[i].from == esys ? ESYS : LOADER;
        *(void **)functions[i].to = function;
    }
    return NULL;
}
