// The part of the TPM Software Stack that protectfs uses (TCG, "TSS 2.0 Enhanced System API"; libtss2-esys.so.0), declared here so that neither a
// build nor a machine needs its packages. The types have the layout of those in tss2_tpm2_types.h; Tests/CTSSLayout compares them.
#ifndef PROTECTFS_TSS_H
#define PROTECTFS_TSS_H

#include <stdint.h>

typedef uint32_t tss_rc;
// ESYS_TR: what the library calls an object, a session or a hierarchy.
typedef uint32_t tss_object;

enum {
    TSS_NONE = 0xFFF,         // ESYS_TR_NONE
    TSS_RH_OWNER = 0x101,     // ESYS_TR_RH_OWNER
    TSS_PASSWORD = 0xFF,      // ESYS_TR_PASSWORD
    TSS_DIGEST_BYTES = 64,    // sizeof(TPMU_HA)
    TSS_NV_BYTES = 2048,      // TPM2_MAX_NV_BUFFER_SIZE
};

// TPM2B_DIGEST, TPM2B_AUTH, TPM2B_DATA
struct tss_digest {
    uint16_t size;
    uint8_t bytes[TSS_DIGEST_BYTES];
};

// TPM2B_NAME
struct tss_name {
    uint16_t size;
    uint8_t bytes[68];
};

// TPM2B_MAX_NV_BUFFER
struct tss_nv_data {
    uint16_t size;
    uint8_t bytes[TSS_NV_BYTES];
};

// TPM2B_NV_PUBLIC
struct tss_nv_public {
    uint16_t size;
    uint32_t index;
    uint16_t name_algorithm;
    uint32_t attributes;
    struct tss_digest policy;
    uint16_t data_size;
};

// TPMT_SYM_DEF and TPMT_SYM_DEF_OBJECT
struct tss_cipher {
    uint16_t algorithm;
    uint16_t key_bits;
    uint16_t mode;
};

// TPM2B_PUBLIC of a key on an elliptic curve. Of other keys the fields up to `policy` are the same.
struct tss_public {
    uint16_t size;
    uint16_t before_area;
    uint16_t type;
    uint16_t name_algorithm;
    uint32_t attributes;
    struct tss_digest policy;
    uint16_t before_parameters;
    struct tss_cipher cipher;
    uint16_t scheme;
    uint16_t scheme_details[2];
    uint16_t curve;
    uint16_t derivation;
    uint16_t derivation_details;
    uint8_t rest[2 + 514];
};

// TPM2B_SENSITIVE_CREATE
struct tss_sensitive {
    uint16_t size;
    struct tss_digest authorization;
    uint8_t data[258];
};

// TPML_PCR_SELECTION
struct tss_pcr_selection {
    uint32_t count;
    uint8_t rest[128];
};

// TPMS_CAPABILITY_DATA of TPM_CAP_HANDLES, where each value is a handle, and of TPM_CAP_TPM_PROPERTIES, where each second one belongs to the
// property before it
struct tss_capability {
    uint32_t capability;
    uint32_t count;
    uint32_t values[256];
};

// The functions, under the names of the library without their prefix: Tss2_TctiLdr_, Esys_.
struct tss_library {
    tss_rc (*TctiLdr_Initialize)(const char *name, void **tcti);
    void (*TctiLdr_Finalize)(void **tcti);
    tss_rc (*Initialize)(void **context, void *tcti, void *abi);
    void (*Finalize)(void **context);
    void (*Free)(void *memory);
    tss_rc (*GetCapability)(void *context, tss_object, tss_object, tss_object, uint32_t capability, uint32_t property,
                            uint32_t count, uint8_t *more, struct tss_capability **);
    tss_rc (*TR_FromTPMPublic)(void *context, uint32_t handle, tss_object, tss_object, tss_object, tss_object *object);
    tss_rc (*TR_GetName)(void *context, tss_object, struct tss_name **);
    tss_rc (*TR_SetAuth)(void *context, tss_object, const struct tss_digest *);
    tss_rc (*ReadPublic)(void *context, tss_object, tss_object, tss_object, tss_object, struct tss_public **,
                         struct tss_name **name, struct tss_name **qualified);
    tss_rc (*CreatePrimary)(void *context, tss_object hierarchy, tss_object, tss_object, tss_object,
                            const struct tss_sensitive *, const struct tss_public *, const struct tss_digest *outside,
                            const struct tss_pcr_selection *, tss_object *object, struct tss_public **, void **data,
                            void **hash, void **ticket);
    tss_rc (*StartAuthSession)(void *context, tss_object key, tss_object bind, tss_object, tss_object, tss_object,
                               const struct tss_digest *nonce, uint8_t type, const struct tss_cipher *, uint16_t hash,
                               tss_object *session);
    tss_rc (*TRSess_SetAttributes)(void *context, tss_object session, uint8_t attributes, uint8_t mask);
    tss_rc (*FlushContext)(void *context, tss_object);
    tss_rc (*NV_DefineSpace)(void *context, tss_object hierarchy, tss_object, tss_object, tss_object,
                             const struct tss_digest *authorization, const struct tss_nv_public *, tss_object *index);
    tss_rc (*NV_UndefineSpace)(void *context, tss_object hierarchy, tss_object index, tss_object, tss_object, tss_object);
    tss_rc (*NV_ReadPublic)(void *context, tss_object index, tss_object, tss_object, tss_object, struct tss_nv_public **,
                            struct tss_name **);
    tss_rc (*NV_Write)(void *context, tss_object by, tss_object index, tss_object, tss_object, tss_object,
                       const struct tss_nv_data *, uint16_t offset);
    tss_rc (*NV_Read)(void *context, tss_object by, tss_object index, tss_object, tss_object, tss_object, uint16_t count,
                      uint16_t offset, struct tss_nv_data **);
};

// Loads the library. NULL, or the name of the shared object that is missing. It stays loaded; several threads may call this. The first call sets
// TSS2_LOG, so that the library prints nothing, by another array of environ(7).
const char *protectfs_tss_load(struct tss_library *library);

#endif
