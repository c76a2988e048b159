// Whether the declarations of CTSS were compared with the headers of libtss2-dev when this was built.
#ifndef PROTECTFS_TSS_LAYOUT_H
#define PROTECTFS_TSS_LAYOUT_H

extern const int protectfs_tss_layout_is_checked;

#endif
