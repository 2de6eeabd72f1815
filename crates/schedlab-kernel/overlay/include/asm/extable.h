/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_EXTABLE_H
#define _ASM_EXTABLE_H

struct exception_table_entry {
	unsigned long insn, fixup;
};

#endif
