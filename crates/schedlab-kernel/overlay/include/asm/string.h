/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_STRING_H
#define _ASM_STRING_H

#define __HAVE_ARCH_MEMCPY
#define __HAVE_ARCH_MEMSET
void *memcpy(void *to, const void *from, __SIZE_TYPE__ bytes);
void *memset(void *to, int value, __SIZE_TYPE__ bytes);

#endif
