/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/sensitive.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "harness/tap.h"

static const struct {
    const char *path;
    bool sensitive;
} paths[] = {
    { ".git/hooks/post-checkout", true },
    { ".git/hooks", true }, /* as a link to where hooks can be written */
    { ".git/config", true },
    { ".git/config.worktree", true },
    { ".git/commondir", true },
    { ".git/modules/sub/config", true },
    { ".git/modules/sub/hooks/pre-commit", true },
    { ".git/rebase-merge/git-rebase-todo", true },
    { ".git/something-of-a-later-git", true },
    { ".git", true }, /* as a file that names another directory */
    { ".GIT/Config", true },
    { "deep/down/.git/config", true },
    { ".git/objects/x/.git/config", true },
    { ".git/objects/evil/HEAD", true },
    { ".git/info/HEAD", true },
    { ".git/info/attributes", true },
    { ".git/refs/x/.git/hooks/y", true },
    { "bare/HEAD", true },
    { "HEAD", true },
    { "sub/.hg/hgrc", true },
    { ".husky/pre-commit", true },
    { ".envrc", true },
    { "sub/.envrc", true },
    { ".vscode/tasks.json", true },
    { "x.code-workspace", true },
    { ".idea/workspace.xml", true },
    { ".claude/settings.json", true },
    { ".mcp.json", true },
    { ".bashrc", true },
    { ".ssh/authorized_keys", true },
    { ".config/systemd/user/x.service", true },

    { ".git/HEAD", false },
    { ".git/FETCH_HEAD", false },
    { ".git/AUTO_MERGE", false },
    { ".git/gc.log", false },
    { ".git/index", false },
    { ".git/objects/ab/cdef", false },
    { ".git/refs/heads/main", false },
    { ".git/refs/remotes/origin/HEAD", false },
    { ".git/logs/HEAD", false },
    { ".git/packed-refs", false },
    { ".gitignore", false },
    { ".github/workflows/ci.yml", false },
    { "src/main.c", false },
    { "Makefile", false },
    { "package.json", false },
    { "hooks/config", false },
    { "a.git/config", false },
    { "HEADER", false },
    { "src/HEAD.c", false },
    { "bin/tool", false },
    { "Desktop/x", false },
    { "envrc", false },
    { "sub/.gitignore", false },
    { ".editorconfig", false },
    { ".pytest_cache/v/cache/lastfailed", false },
    { ".env.example", false },

    { "fixtures/.bashrc", true },
    { ".config/nextest.toml", true },
    { ".unheard-of", true },
    { "src/.unheard-of/x", true },
    { ".pytest_cache/.unheard-of", true },
    { ".github/copilot-instructions.md", true },
    { ".github/x/HEAD", true },
    { ".cargo/config.toml", true },
    { ".yarnrc.yml", true },
    { ".Rprofile", true },
    { ".pdbrc", true },
    { ".gdbinit", true },
    { ".mise.toml", true },
    { ".pylintrc", true },
    { "eslint.config.js", true },
    { "packages/a/eslint.config.mjs", true },
    { ".roo/rules", true },
    { ".kiro/settings.json", true },
    { ".amazonq/rules/x", true },
    { ".windsurf/rules", true },
    { "opencode.json", true },
    { ".aider.conf.yml", true },
    { ".claude/skills/x/SKILL.md", true },
    { ".claude/agents/x.md", true },
    { "CLAUDE.md", true },
    { "claude.md", true },
    { ".emacs.d/init.el", true },
    { ".config/nvim/init.lua", true },
    { ".vim/plugin/x.vim", true },
    { ".tmux.conf", true },
    { ".xinitrc", true },
    { ".kube/config", true },
    { ".aws/config", true },
    { ".docker/config.json", true },
    { ".cargo/bin/ls", true },
    { ".local/share/applications/x.desktop", true },
    { ".pam_environment", true },
    { ".gnupg/gpg.conf", true },
    { ".venv/bin/python", true },
    { ".htaccess", true },
    { "web/.htaccess", true },
    { ".github/copilot/x", true },
    { ".github/hooks/x.json", true },
    { ".gitlab/duo/mcp.json", true },

    { "pylintrc", true },
    { "pylintrc.toml", true },
    { "lefthook.yml", true },
    { "lefthook.toml", true },
    { "lefthook.json", true },
    { "lefthook-local.toml", true },
    { "mise.toml", true },
    { "mise.dev.toml", true },
    { "mise/config.toml", true },
    { "mise/conf.d/x.toml", true },
    { "prettier.config.js", true },
    { "tailwind.config.ts", true },
    { "postcss.config.cjs", true },
    { "jest.config.js", true },
    { "vitest.config.ts", true },
    { "vite.config.mts", true },
    { "webpack.config.js", true },
    { "babel.config.json", true },
    { "stylelint.config.mjs", true },
    { "commitlint.config.js", true },
    { "flake.nix", true },
    { "AGENT.md", true },
    { "AGENTS.md", true },
    { "sub/agents.md", true },
    { "WARP.md", true },
    { "QWEN.md", true },
    { "CRUSH.md", true },
    { "crush.json", true },
    { "GEMINI.md", true },
    { "CLAUDE.local.md", true },

    /* Other spellings of the same names. */
    { "Claude.MD", true },
    { "CLAUDE.md.", true },
    { "CLAUDE.md ", true },
    { "CLAUDE.md. .", true },
    { "CLAUDE.md::$DATA", true },
    { "CLAU\xe2\x80\x8c"
      "DE.md",
      true },                     /* a zero-width character */
    { "AGENT\xc5\xbf.md", true }, /* a long s */
    { "crush.j\xc5\xbfon", true },
    { "\xe2\x80\x8c.git/config", true },
    { ".git./config", true },
    { ".git /objects/ab/cdef", true },
    { ".GIT/objects/ab/cdef", true },
    { ".gitignore ", true }, /* harmless names have one spelling */
    { ".GITIGNORE", true },
    { "...", true },
    { "GIT~1/config", true },
    { "git~1", true },
    { "VSCODE~1/tasks.json", true },
    { "MCP~1.JSO", true },
    { "sub/ESLINT~12.js", false }, /* longer than a short name */
    { "notes~", false },
    { "main.c~", false },
    { "main.c.~1~", false },
    { "~1", false },
    { "HEAD~x", false },
    { "Übersicht.md", false },
    { "a b. c", false },

    /* What a developer starts. */
    { "pyproject.toml", false },
    { "setup.cfg", false },
    { "tox.ini", false },
    { "conftest.py", false },
    { "Cargo.toml", false },
    { "build.rs", false },
    { "tsconfig.json", false },
    { "node_modules/eslint/index.js", false },
    { "node_modules/prettier/index.js", false },
    { "docker-compose.yml", false },
    { "mise/src/main.rs", false },
    { "src/config.toml", false },
    { "config/vite.ts", false },
    { "README.md", false },
    { "AGENTS.txt", false },
    { "docs/CLAUDE.md.html", false },
    { ".worktrees/x/src/main.c", false },
    { ".worktrees/x/.git", true },
    { ".claude/worktrees/x/src/main.c", false },
    { ".claude/worktrees/x/CLAUDE.md", true },
};

/* A place as sync_place_find() would find it; `home` is a part of its path that is a home. */
static const struct sync_place *place_at(const char *path, const char *home)
{
    static struct sync_place p;

    p = (struct sync_place){ .known = true, .n = strlen(path) };
    CHECK(str_copy(str_from(path), p.path, sizeof p.path));
    if (home)
        p.marks[strlen(home)] = PLACE_HOME;
    return &p;
}

static bool held_at(const struct sync_place *place, const char *path)
{
    const struct sensitive_view view = { .place = place };

    return sensitive_reason(&view, str_from(path)) != NULL;
}

TEST(paths_)
{
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if (held_at(place_at("/srv/project", NULL), paths[i].path) != paths[i].sensitive)
            FAIL("%s", paths[i].path);
}

TEST(a_home_has_names_of_its_own)
{
    static const char home[] = "/home/me";

    CHECK(held_at(place_at(home, home), "bin/ls"));
    CHECK(held_at(place_at(home, home), "Desktop/x.desktop"));
    CHECK(!held_at(place_at(home, home), "project/bin/ls"));
    CHECK(!held_at(place_at(home, home), "notes.txt"));
}

TEST(the_path_of_the_directory_counts)
{
    static const struct {
        const char *path, *home, *name;
        bool held;
    } rows[] = {
        { "/home/me/.ssh", "/home/me", "authorized_keys", true },
        { "/home/me/.ssh", "/home/me", "rc", true },
        { "/home/me/.config", "/home/me", "systemd/user/x.service", true },
        { "/home/me/.config/systemd/user", "/home/me", "x.service", true },
        { "/home/me/.local", "/home/me", "bin/ls", true },
        { "/home/me/.unheard-of/deep", "/home/me", "x", true },
        { "/home/me/bin", "/home/me", "ls", true },
        { "/home/me/bin/deep", "/home/me", "ls", true },
        { "/home/me/Desktop", "/home/me", "x.desktop", true },
        { "/srv/project/.vscode", NULL, "tasks.json", true },
        { "/srv/project/.git", NULL, "config", true },
        { "/srv/project/.git", NULL, "hooks/x", true },
        { "/srv/project/.git/hooks", NULL, "x", true },
        { "/srv/project/.github", NULL, "hooks/x.json", true },
        { "/srv/mise", NULL, "config.toml", true },
        { "/etc/cron.d", NULL, "x", true },
        { "/usr/local/bin", NULL, "x", true },

        { "/home/me/project", "/home/me", "bin/ls", false },
        { "/home/me/project/bin", "/home/me", "ls", false },
        { "/srv/bin", NULL, "ls", false },
        { "/srv/etc", NULL, "x", false },
        { "/usr/src/app", NULL, "main.c", false },
        { "/srv/project/.git", NULL, "objects/ab/cd", false },
        { "/srv/project/.github", NULL, "workflows/ci.yml", false },
        { "/srv/project/.worktrees/x", NULL, "src/main.c", false },
        { "/srv/mise", NULL, "src/main.rs", false },
        { "", NULL, "srv/x", false },
        { "", NULL, "etc/x", true },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (held_at(place_at(rows[i].path, rows[i].home), rows[i].name) != rows[i].held)
            FAIL("%s + %s", rows[i].path, rows[i].name);
    CHECK(sensitive_place(place_at("/home/me/.ssh", "/home/me")));
    CHECK(sensitive_place(place_at("/home/me/bin", "/home/me")));
    CHECK(!sensitive_place(place_at("/home/me", "/home/me")));
    CHECK(!sensitive_place(place_at("/srv/x", NULL)));
}

TEST(everything_is_held_where_the_path_is_not_known)
{
    static const struct sync_place nowhere;

    CHECK(held_at(&nowhere, "Makefile") && sensitive_place(&nowhere));
}

/* Names of a tree, for on_has(). */
static const char *const *tree;

static bool on_has(const void *ctx, struct str dir, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, STR_FMT "%s%s", STR_ARG(dir), dir.n ? "/" : "", name);
    for (size_t i = 0; tree[i]; i++)
        if (strcmp(tree[i], path) == 0)
            return true;
    return false;
}

TEST(settings_beside_a_head)
{
    static const char *const names[] = { "fixture.git/HEAD",           ".git/refs/evil/HEAD",
                                         ".git/refs/late/config",      ".git/refs/hooked/hooks",
                                         ".git/logs/linked/commondir", NULL };
    static const struct {
        const char *path;
        bool held;
    } rows[] = {
        { "fixture.git/config", true },
        { "fixture.git/Config.", true },
        { "fixture.git/config.worktree", true },
        { "fixture.git/commondir", true },
        { "fixture.git/gitdir", true },
        { "fixture.git/hooks/post-checkout", true },
        { "fixture.git/hooks/deep/x", true },
        { "fixture.git/info/attributes", true },
        { ".git/refs/evil/config", true },
        { ".git/refs/late/HEAD", true },
        { ".git/refs/hooked/HEAD", true },
        { ".git/logs/linked/HEAD", true },

        { "fixture.git/objects/ab/cd", false },
        { "fixture.git/refs/heads/main", false },
        { "fixture.git/packed-refs", false },
        { "fixture.git/sub/config", false },
        { "other.git/config", false },
        { "other/hooks/x", false },
        { "hooks/x", false },
        { ".git/refs/remotes/origin/HEAD", false },
        { ".git/HEAD", false },
    };

    tree = names;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct sensitive_view view = { place_at("/srv/x", NULL), on_has, NULL };

        if ((sensitive_reason(&view, str_from(rows[i].path)) != NULL) != rows[i].held)
            FAIL("%s", rows[i].path);
    }
}

TEST(settings_of_a_repository_above)
{
    struct sync_place p = *place_at("/srv/x.git/hooks", NULL);

    CHECK(!held_at(&p, "post-checkout"));
    p.marks[strlen("/srv/x.git")] = PLACE_HEAD;
    CHECK(held_at(&p, "post-checkout"));
    p = *place_at("/srv/x.git", NULL);
    p.marks[p.n] = PLACE_HEAD;
    CHECK(held_at(&p, "config") && !held_at(&p, "objects/ab/cd"));
}
