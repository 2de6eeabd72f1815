/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#define SECTION_SIZE_BITS 27
#define MAX_PHYSMEM_BITS 46
