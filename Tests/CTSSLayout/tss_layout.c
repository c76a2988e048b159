#include "tss_layout.h"

// Does not compile if CTSS declares a type with another layout than the library's own headers (libtss2-dev), where these are installed.
#if __has_include(<tss2/tss2_esys.h>)
#include <stddef.h>
#include <tss2/tss2_esys.h>

#include "tss.h"

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #ours)
#define SAME_PLACE(ours, field, theirs, their_field) \
    _Static_assert(offsetof(struct ours, field) == offsetof(theirs, their_field) && \
                   sizeof(((struct ours *)0)->field) == sizeof(((theirs *)0)->their_field), #ours "." #field)

SAME_SIZE(tss_digest, TPM2B_DIGEST);
SAME_SIZE(tss_digest, TPM2B_DATA);
SAME_SIZE(tss_name, TPM2B_NAME);
SAME_SIZE(tss_nv_data, TPM2B_MAX_NV_BUFFER);
SAME_SIZE(tss_nv_public, TPM2B_NV_PUBLIC);
SAME_SIZE(tss_cipher, TPMT_SYM_DEF);
SAME_SIZE(tss_cipher, TPMT_SYM_DEF_OBJECT);
SAME_SIZE(tss_public, TPM2B_PUBLIC);
SAME_SIZE(tss_sensitive, TPM2B_SENSITIVE_CREATE);
SAME_SIZE(tss_pcr_selection, TPML_PCR_SELECTION);
SAME_SIZE(tss_capability, TPMS_CAPABILITY_DATA);
SAME_PLACE(tss_digest, bytes, TPM2B_DIGEST, buffer);
SAME_PLACE(tss_name, bytes, TPM2B_NAME, name);
SAME_PLACE(tss_nv_data, bytes, TPM2B_MAX_NV_BUFFER, buffer);
SAME_PLACE(tss_nv_public, index, TPM2B_NV_PUBLIC, nvPublic.nvIndex);
SAME_PLACE(tss_nv_public, name_algorithm, TPM2B_NV_PUBLIC, nvPublic.nameAlg);
SAME_PLACE(tss_nv_public, attributes, TPM2B_NV_PUBLIC, nvPublic.attributes);
SAME_PLACE(tss_nv_public, policy, TPM2B_NV_PUBLIC, nvPublic.authPolicy);
SAME_PLACE(tss_nv_public, data_size, TPM2B_NV_PUBLIC, nvPublic.dataSize);
SAME_PLACE(tss_cipher, key_bits, TPMT_SYM_DEF, keyBits.aes);
SAME_PLACE(tss_cipher, mode, TPMT_SYM_DEF, mode.aes);
SAME_PLACE(tss_public, type, TPM2B_PUBLIC, publicArea.type);
SAME_PLACE(tss_public, name_algorithm, TPM2B_PUBLIC, publicArea.nameAlg);
SAME_PLACE(tss_public, attributes, TPM2B_PUBLIC, publicArea.objectAttributes);
SAME_PLACE(tss_public, policy, TPM2B_PUBLIC, publicArea.authPolicy);
SAME_PLACE(tss_public, cipher, TPM2B_PUBLIC, publicArea.parameters.eccDetail.symmetric);
SAME_PLACE(tss_public, scheme, TPM2B_PUBLIC, publicArea.parameters.eccDetail.scheme.scheme);
SAME_PLACE(tss_public, curve, TPM2B_PUBLIC, publicArea.parameters.eccDetail.curveID);
SAME_PLACE(tss_public, derivation, TPM2B_PUBLIC, publicArea.parameters.eccDetail.kdf.scheme);
SAME_PLACE(tss_sensitive, authorization, TPM2B_SENSITIVE_CREATE, sensitive.userAuth);
SAME_PLACE(tss_capability, count, TPMS_CAPABILITY_DATA, data.tpmProperties.count);
SAME_PLACE(tss_capability, values[2], TPMS_CAPABILITY_DATA, data.tpmProperties.tpmProperty[1].property);
SAME_PLACE(tss_capability, values[3], TPMS_CAPABILITY_DATA, data.tpmProperties.tpmProperty[1].value);
SAME_PLACE(tss_capability, values[1], TPMS_CAPABILITY_DATA, data.handles.handle[1]);
_Static_assert(TSS_NONE == ESYS_TR_NONE && TSS_RH_OWNER == ESYS_TR_RH_OWNER && TSS_PASSWORD == ESYS_TR_PASSWORD, "objects");

const int protectfs_tss_layout_is_checked = 1;
#else
const int protectfs_tss_layout_is_checked = 0;
#endif
