/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_PERCPU_H
#define _ASM_PERCPU_H

/* The offset of the CPU that runs now. */
extern unsigned long schedlab_offset;
#define __my_cpu_offset schedlab_offset

#include <asm-generic/percpu.h>

#endif
