/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include <asm/ptrace.h>
typedef struct pt_regs bpf_user_pt_regs_t;
