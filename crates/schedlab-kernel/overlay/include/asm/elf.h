/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_ELF_H
#define _ASM_ELF_H

#define ELF_CLASS ELFCLASS64
#define ELF_DATA ELFDATA2LSB
#define ELF_ARCH EM_NONE
#define elf_check_arch(header) 0
#define ELF_EXEC_PAGESIZE PAGE_SIZE
#define CORE_DUMP_USE_REGSET
typedef unsigned long elf_greg_t;
typedef elf_greg_t elf_gregset_t[1];
typedef elf_greg_t elf_fpregset_t[1];

#endif
