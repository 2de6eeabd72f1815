/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_PTRACE_H
#define _ASM_PTRACE_H

struct pt_regs {
	unsigned long user, ip, sp;
};

#define user_mode(regs) ((regs)->user)
#define instruction_pointer(regs) ((regs)->ip)
#define profile_pc(regs) ((regs)->ip)
#define user_stack_pointer(regs) ((regs)->sp)
#define MAX_REG_OFFSET 0

#endif
