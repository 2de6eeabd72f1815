/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_CURRENT_H
#define _ASM_CURRENT_H

struct task_struct;
/* The task of the CPU that runs now. */
extern struct task_struct *schedlab_current;
#define get_current() schedlab_current
#define current get_current()

#endif
