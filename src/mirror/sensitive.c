#include "mirror/sensitive.h"

#include <stdbool.h>
#include <strings.h>

#include "base/own.h"

/* Components joined by slashes, in any case (some file systems do not tell them apart):
 *   "/x"   at the top of the mirrored directory only; without the slash at any depth
 *   "x/"   it and everything beneath it
 *   "*x"   a component that ends so */
static const struct row {
    const char *pattern;
    const char *why; /* NULL: harmless, whatever a later row says about it */
} rows[] = {
    /* Of a git directory, what commits and fetches write. Everything else in it is, or may become
     * in a later git, a way to name programs: config, config.worktree, hooks, commondir, modules,
     * worktrees, the todo list of a rebase. So is ".git" as a file or link, which says where the
     * git directory is. */
    { ".git/objects/", NULL },
    { ".git/refs/", NULL },
    { ".git/logs/", NULL },
    { ".git/info/", NULL },
    { ".git/packed-refs", NULL },
    { ".git/index", NULL },
    { ".git/shallow", NULL },
    { ".git/description", NULL },
    { ".git/COMMIT_EDITMSG", NULL },
    { ".git/MERGE_MSG", NULL },
    { ".git/MERGE_MODE", NULL },
    { ".git/SQUASH_MSG", NULL },
    { ".git/*HEAD", NULL },
    { ".git/", "git runs programs that this file can name" },
    /* With this file beside "objects" and "refs" any directory is a git directory, config and all.
     */
    { "HEAD", "git takes the directory of such a file for a repository and obeys its config" },
    { ".hg/hgrc", "Mercurial runs hooks that this file names" },
    { ".hg/hgrc-not-shared", "Mercurial runs hooks that this file names" },
    { ".hg/sharedpath", "Mercurial reads its hooks from where this file points" },
    { ".jj/repo/", "jj runs programs that its settings name" },

    /* Run by git hooks that people have installed. */
    { ".husky/", "git hooks run it" },
    { ".githooks/", "git hooks run it" },
    { ".pre-commit-config.yaml", "the pre-commit hook runs what it names" },
    { "lefthook.yml", "git hooks run what it names" },
    { "lefthook.yaml", "git hooks run what it names" },
    { "lefthook-local.yml", "git hooks run what it names" },

    /* Run by a shell that enters the directory. */
    { ".envrc", "direnv runs it" },

    /* Run by an editor that opens the directory. */
    { ".vscode/", "editors run tasks and programs that it names" },
    { "*.code-workspace", "editors run tasks and programs that it names" },
    { ".devcontainer/", "editors run commands on the host that it names" },
    { ".devcontainer.json", "editors run commands on the host that it names" },
    { ".idea/", "editors run tasks and programs that it names" },
    { ".zed/", "editors run programs that it names" },
    { ".exrc", "vim runs it" },
    { ".vimrc", "vim runs it" },
    { ".nvimrc", "vim runs it" },
    { ".nvim.lua", "vim runs it" },
    { ".dir-locals.el", "Emacs evaluates it" },
    { ".dir-locals-2.el", "Emacs evaluates it" },

    /* Run by an agent that is started in the directory. */
    { ".mcp.json", "agents start servers that it names" },
    { ".claude/settings.json", "agents run hooks that it names" },
    { ".claude/settings.local.json", "agents run hooks that it names" },
    { ".claude/hooks/", "agents run it" },
    { ".cursor/mcp.json", "agents start servers that it names" },
    { ".cursor/hooks.json", "agents run hooks that it names" },
    { ".cursor/hooks/", "agents run it" },
    { ".gemini/settings.json", "agents run hooks and servers that it names" },
    { ".codex/config.toml", "agents start servers that it names" },

    /* The mirrored directory may be somebody's home. */
    { "/.bashrc", "shells run it" },
    { "/.bash_profile", "shells run it" },
    { "/.bash_login", "shells run it" },
    { "/.bash_logout", "shells run it" },
    { "/.bash_aliases", "shells run it" },
    { "/.profile", "shells run it" },
    { "/.xprofile", "sessions run it" },
    { "/.zshenv", "shells run it" },
    { "/.zprofile", "shells run it" },
    { "/.zshrc", "shells run it" },
    { "/.zlogin", "shells run it" },
    { "/.zlogout", "shells run it" },
    { "/.ssh/", "it decides who can log in, and what ssh runs" },
    { "/.gitconfig", "git runs programs that it names" },
    { "/.config/git/", "git runs programs that it names" },
    { "/.config/fish/", "shells run it" },
    { "/.config/autostart/", "sessions run it" },
    { "/.config/systemd/", "sessions run it" },
    { "/.config/environment.d/", "sessions take their environment from it" },
    { "/.local/bin/", "it can stand in for any program" },
};

static bool component_matches(struct str pattern, struct str name)
{
    if (pattern.n > 0 && pattern.p[0] == '*') {
        pattern = (struct str){ pattern.p + 1, pattern.n - 1 };
        if (name.n < pattern.n)
            return false;
        name = (struct str){ name.p + name.n - pattern.n, pattern.n };
    }
    return name.n == pattern.n && strncasecmp(name.p, pattern.p, name.n) == 0;
}

/* A pattern against a path that begins where it could match. */
static bool matches(struct str pattern, struct str path)
{
    struct str want, name;

    while (pattern.n > 0) {
        if (path.n == 0)
            return false;
        pattern = str_cut(pattern, '/', &want);
        path = str_cut(path, '/', &name);
        if (!component_matches(want, name))
            return false;
        if (pattern.p && pattern.n == 0) /* it ended in a slash */
            return true;
    }
    return path.n == 0;
}

static const struct row *find_row(struct str path, bool at_top)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool anchored = rows[i].pattern[0] == '/';

        if (anchored && !at_top)
            continue;
        if (matches(str_from(rows[i].pattern + anchored), path))
            return &rows[i];
    }
    return NULL;
}

/* A harmless start (".git/refs/…") excuses a file named HEAD further on, but not another ".git". */
const char *sensitive_reason(struct str path)
{
    bool at_top = true, in_git = false;

    while (path.n > 0) {
        const struct row *row = find_row(path, at_top);
        struct str name;

        if (row && !row->why)
            in_git = true;
        else if (row && !(in_git && component_matches(STR("HEAD"), path)))
            return row->why;
        path = str_cut(path, '/', &name);
        at_top = false;
    }
    return NULL;
}
