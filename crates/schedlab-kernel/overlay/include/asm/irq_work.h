/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_IRQ_WORK_H
#define _ASM_IRQ_WORK_H

static inline bool arch_irq_work_has_interrupt(void)
{
	return true;
}

#endif
