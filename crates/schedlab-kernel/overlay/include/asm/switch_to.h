/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_SWITCH_TO_H
#define _ASM_SWITCH_TO_H

struct task_struct *schedlab_switch_to(struct task_struct *prev, struct task_struct *next);
#define switch_to(prev, next, last) ((last) = schedlab_switch_to(prev, next))

#endif
