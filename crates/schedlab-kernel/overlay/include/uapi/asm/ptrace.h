/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _UAPI_ASM_PTRACE_H
#define _UAPI_ASM_PTRACE_H
#endif
