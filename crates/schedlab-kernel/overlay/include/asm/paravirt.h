/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_PARAVIRT_H
#define _ASM_PARAVIRT_H

#include <linux/jump_label.h>

extern struct static_key paravirt_steal_enabled, paravirt_steal_rq_enabled;

/* What the hypervisor has taken of a CPU. */
u64 paravirt_steal_clock(int cpu);

#endif
