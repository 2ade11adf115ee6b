/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ssh/elf.h"

#include <elf.h>
#include <string.h>

#include "base/own.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64, CACHE_FLAGS = 0x0303 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64, CACHE_FLAGS = 0x0a03 };
#else
#error "this architecture is not supported"
#endif

/* Copies n bytes at an offset, which need not be aligned. */
static bool read_elf_bytes(struct str file, uint64_t at, void *ret, size_t n)
{
    if (at > file.n || file.n - at < n)
        return false;
    memcpy(ret, file.p + at, n);
    return true;
}

/* The text at an offset, up to its NUL. */
static bool read_elf_text(struct str file, uint64_t at, struct str *ret)
{
    const char *end = at < file.n ? memchr(file.p + at, 0, file.n - at) : NULL;

    if (!end)
        return false;
    *ret = (struct str){ file.p + at, (size_t)(end - (file.p + at)) };
    return true;
}

static bool read_segment(struct str file, const Elf64_Ehdr *head, size_t i, Elf64_Phdr *ret)
{
    return read_elf_bytes(file, head->e_phoff + i * sizeof *ret, ret, sizeof *ret);
}

/* Where in the file an address of the program is. */
static bool find_offset(struct str file, const Elf64_Ehdr *head, uint64_t address, uint64_t *ret)
{
    Elf64_Phdr p;

    for (size_t i = 0; i < head->e_phnum && read_segment(file, head, i, &p); i++)
        if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz) {
            *ret = p.p_offset + (address - p.p_vaddr);
            return true;
        }
    return false;
}

static bool read_dynamic(struct str file, const Elf64_Ehdr *head, const Elf64_Phdr *p,
                         struct elf_needs *ret)
{
    uint64_t names[ELF_NEEDED_MAX], strings = 0;
    Elf64_Dyn d;

    for (uint64_t at = 0; at + sizeof d <= p->p_filesz; at += sizeof d) {
        if (!read_elf_bytes(file, p->p_offset + at, &d, sizeof d))
            return false;
        if (d.d_tag == DT_NULL)
            break;
        if (d.d_tag == DT_STRTAB && !find_offset(file, head, d.d_un.d_ptr, &strings))
            return false;
        if (d.d_tag != DT_NEEDED)
            continue;
        if (ret->n == ELF_NEEDED_MAX)
            return false;
        names[ret->n++] = d.d_un.d_val;
    }
    for (size_t i = 0; i < ret->n; i++)
        if (names[i] > file.n || !read_elf_text(file, strings + names[i], &ret->needed[i]))
            return false;
    return true;
}

bool elf_read(struct str file, struct elf_needs *ret)
{
    Elf64_Ehdr head;
    Elf64_Phdr p;

    *ret = (struct elf_needs){ .n = 0 };
    if (!read_elf_bytes(file, 0, &head, sizeof head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_machine != MACHINE ||
        head.e_phentsize != sizeof p || head.e_phoff > file.n)
        return false;
    for (size_t i = 0; i < head.e_phnum; i++) {
        if (!read_segment(file, &head, i, &p))
            return false;
        if (p.p_type == PT_INTERP && !read_elf_text(file, p.p_offset, &ret->loader))
            return false;
        if (p.p_type == PT_DYNAMIC && (ret->n || !read_dynamic(file, &head, &p, ret)))
            return false;
    }
    return true;
}

/* --- ld.so.cache --- */

#define CACHE_MAGIC "glibc-ld.so.cache1.1"

struct cache_head {
    char magic[sizeof CACHE_MAGIC - 1];
    uint32_t n, strings;
    uint32_t unused[5];
};

struct cache_entry {
    int32_t flags;
    uint32_t name, path; /* offsets */
    uint32_t osversion;
    uint64_t hwcap; /* for special processors: passed over */
};

bool elf_find_cached(struct str cache, struct str name, struct str *ret)
{
    struct cache_head head;
    struct cache_entry entry;
    struct str found;

    if (!read_elf_bytes(cache, 0, &head, sizeof head) ||
        memcmp(head.magic, CACHE_MAGIC, sizeof head.magic) != 0)
        return false;
    for (uint64_t i = 0; i < head.n; i++) {
        if (!read_elf_bytes(cache, sizeof head + i * sizeof entry, &entry, sizeof entry))
            return false;
        if (entry.flags == CACHE_FLAGS && !entry.hwcap &&
            read_elf_text(cache, entry.name, &found) && str_eq(found, name))
            return read_elf_text(cache, entry.path, ret);
    }
    return false;
}
