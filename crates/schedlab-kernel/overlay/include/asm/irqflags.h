/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_IRQFLAGS_H
#define _ASM_IRQFLAGS_H

#define ARCH_IRQ_ENABLED 0
#define ARCH_IRQ_DISABLED 1

/* Whether the CPU that runs now has interrupts off. */
extern unsigned long schedlab_irqs_off;

static __always_inline unsigned long arch_local_save_flags(void)
{
	return schedlab_irqs_off;
}

static __always_inline void arch_local_irq_restore(unsigned long flags)
{
	schedlab_irqs_off = flags;
}

static __always_inline void arch_local_irq_disable(void)
{
	schedlab_irqs_off = ARCH_IRQ_DISABLED;
}

static __always_inline void arch_local_irq_enable(void)
{
	schedlab_irqs_off = ARCH_IRQ_ENABLED;
}

static __always_inline unsigned long arch_local_irq_save(void)
{
	unsigned long before = schedlab_irqs_off;

	schedlab_irqs_off = ARCH_IRQ_DISABLED;
	return before;
}

static __always_inline bool arch_irqs_disabled_flags(unsigned long flags)
{
	return flags == ARCH_IRQ_DISABLED;
}

static __always_inline bool arch_irqs_disabled(void)
{
	return arch_irqs_disabled_flags(schedlab_irqs_off);
}

#endif
