/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef _ASM_PGTABLE_H
#define _ASM_PGTABLE_H

#include <linux/version.h>
#include <asm-generic/pgtable-nopud.h>

#define PAGE_NONE __pgprot(0)
#define PAGE_SHARED __pgprot(0)
#define PAGE_COPY __pgprot(0)
#define PAGE_READONLY __pgprot(0)
#define PAGE_KERNEL __pgprot(0)
#define pgprot_noncached(of) (of)
#define pgprot_writecombine(of) (of)
#define pgprot_device(of) (of)
#define swapper_pg_dir ((pgd_t *)NULL)
#define vmemmap ((struct page *)NULL)
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define ZERO_PAGE(address) ((struct page *)NULL)
#endif
#define VMALLOC_START 0UL
#define VMALLOC_END ~0UL

#endif
