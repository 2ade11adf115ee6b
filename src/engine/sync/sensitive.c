/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/sensitive.h"

#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "engine/sync/spelling.h"
#include "lib/tar/tree.h"

/* Components joined by slashes:
 *   "/x"   at the root of the file system only
 *   "~/x"  at the top of a home directory only; any other pattern matches at every depth
 *   "x/"   the directory and everything beneath it
 *   "x*y"  a component that begins with x and ends in y; either may be empty
 * A pattern of a held name matches every spelling that some file system takes for the same name
 * (spelling.h), a pattern of a harmless name only its own bytes. The first row that matches
 * decides. A name that begins with a dot and matches no row is held. The patterns are compared with
 * the path of the mirrored directory and the path in it together. */
struct sensitive_row {
    const char *pattern;
    const char *why; /* NULL: harmless, independent of later rows */
};

/* Names that begin with a dot. */
static const struct sensitive_row dot_rows[] = {
    /* In a git directory, the files that commits and fetches write. All others name programs, or
     * may do so in a later git: config, config.worktree, hooks, commondir, modules, worktrees, the
     * todo list of a rebase. The same holds for ".git" as a file or link, which points at the git
     * directory. */
    { ".git/objects/", NULL },
    { ".git/refs/", NULL },
    { ".git/logs/", NULL },
    { ".git/info/attributes", "git runs the filters that it assigns to files" },
    { ".git/info/", NULL },
    { ".git/packed-refs", NULL },
    { ".git/index", NULL },
    { ".git/shallow", NULL },
    { ".git/description", NULL },
    { ".git/COMMIT_EDITMSG", NULL },
    { ".git/MERGE_MSG", NULL },
    { ".git/MERGE_MODE", NULL },
    { ".git/SQUASH_MSG", NULL },
    { ".git/TAG_EDITMSG", NULL },
    { ".git/AUTO_MERGE", NULL },
    { ".git/MERGE_RR", NULL },
    { ".git/gc.log", NULL },
    { ".git/*HEAD", NULL },
    { ".git/", "git runs programs that this file can name" },
    { ".hg/", "Mercurial runs hooks that its settings name" },
    { ".jj/", "jj runs programs that its settings name" },
    { ".svn/", "Subversion obeys it" },

    /* Started by installed git hooks. */
    { ".husky/", "git hooks run it" },
    { ".githooks/", "git hooks run it" },
    { ".pre-commit-config.yaml", "the pre-commit hook runs the programs it names" },

    /* Run by a shell, or by a tool that the shell starts, on entering the directory. */
    { ".envrc", "direnv runs it" },
    { ".env", "shells and editors load it" },
    { ".mise.toml", "mise runs the hooks it names" },
    { ".mise.local.toml", "mise runs the hooks it names" },
    { ".mise/", "mise runs the hooks it names" },
    { ".venv/", "editors and shells run the interpreter in it" },

    /* Run by an editor that opens the directory, or by the linter or language server of one. */
    { ".vscode/", "editors run tasks and programs that it names" },
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
    { ".cargo/", "cargo and rust-analyzer run programs that it names" },
    { ".pylintrc", "editors load the plug-ins it names" },
    { ".yarnrc.yml", "yarn runs programs that it names" },
    { ".Rprofile", "R runs it" },
    { ".pdbrc", "the Python debugger runs it" },
    { ".gdbinit", "gdb runs it" },
    { ".lldbinit", "lldb runs it" },

    /* Run or obeyed by an agent that is started in the directory. */
    { ".mcp.json", "agents start servers that it names" },
    { ".claude/worktrees/", NULL }, /* checkouts: their files are judged by their own names */
    { ".worktrees/", NULL },
    { ".claude/", "agents obey it and run hooks that it names" },
    { ".cursor/", "agents obey it and run hooks that it names" },
    { ".gemini/", "agents obey it and run hooks that it names" },
    { ".codex/", "agents obey it and start servers that it names" },
    { ".roo/", "agents obey it" },
    { ".kiro/", "agents obey it" },
    { ".amazonq/", "agents obey it" },
    { ".windsurf/", "agents obey it" },
    { ".aider.conf.yml", "agents obey it" },
    { ".opencode/", "agents obey it" },
    { ".github/copilot-instructions.md", "agents obey it" },
    { ".github/instructions/", "agents obey it" },
    { ".github/prompts/", "agents obey it" },
    { ".github/chatmodes/", "agents obey it" },
    { ".github/agents/", "agents obey it" },
    { ".github/skills/", "agents obey it" },
    { ".github/hooks/", "agents run it" },
    { ".github/copilot/", "agents obey it" },
    { ".github/mcp.json", "agents start servers that it names" },
    { ".github/lsp.json", "agents start servers that it names" },
    { ".gitlab/duo/", "agents obey it and start servers that it names" },

    /* Obeyed by a web server that serves the directory. */
    { ".htaccess", "web servers obey it" },
    { ".user.ini", "web servers obey it" },

    /* Start-up files and settings of a user. */
    { ".bashrc", "shells run it" },
    { ".bash_profile", "shells run it" },
    { ".bash_login", "shells run it" },
    { ".bash_logout", "shells run it" },
    { ".bash_aliases", "shells run it" },
    { ".profile", "shells run it" },
    { ".xprofile", "sessions run it" },
    { ".zshenv", "shells run it" },
    { ".zprofile", "shells run it" },
    { ".zshrc", "shells run it" },
    { ".zlogin", "shells run it" },
    { ".zlogout", "shells run it" },
    { ".ssh/", "it decides who can log in, and which programs ssh runs" },
    { ".gitconfig", "git runs programs that it names" },
    { ".config/git/", "git runs programs that it names" },
    { ".config/fish/", "shells run it" },
    { ".config/autostart/", "sessions run it" },
    { ".config/systemd/", "sessions run it" },
    { ".config/environment.d/", "sessions take their environment from it" },
    { ".local/bin/", "it can replace any program" },

    /* Names with a dot that no program of the host executes or obeys by itself. */
    { ".gitignore", NULL },
    { ".gitattributes", NULL },
    { ".gitkeep", NULL },
    { ".keep", NULL },
    { ".mailmap", NULL },
    { ".git-blame-ignore-revs", NULL },
    { ".hgignore", NULL },
    { ".ignore", NULL },
    { ".rgignore", NULL },
    { ".dockerignore", NULL },
    { ".containerignore", NULL },
    { ".npmignore", NULL },
    { ".eslintignore", NULL },
    { ".prettierignore", NULL },
    { ".stylelintignore", NULL },
    { ".vercelignore", NULL },
    { ".gcloudignore", NULL },
    { ".helmignore", NULL },
    { ".editorconfig", NULL },
    { ".clang-format", NULL },
    { ".clang-format-ignore", NULL },
    { ".browserslistrc", NULL },
    { ".nvmrc", NULL },
    { ".node-version", NULL },
    { ".python-version", NULL },
    { ".ruby-version", NULL },
    { ".java-version", NULL },
    { ".env.example", NULL },
    { ".env.sample", NULL },
    { ".env.template", NULL },
    { ".github/", NULL },
    { ".gitlab/", NULL },
    { ".gitlab-ci.yml", NULL },
    { ".gitea/", NULL },
    { ".forgejo/", NULL },
    { ".circleci/", NULL },
    { ".travis.yml", NULL },
    { ".drone.yml", NULL },
    { ".woodpecker/", NULL },
    { ".woodpecker.yml", NULL },
    { ".readthedocs.yaml", NULL },
    { ".readthedocs.yml", NULL },
    { ".codecov.yml", NULL },
    { ".coverage", NULL },
    { ".nojekyll", NULL },
    { ".well-known/", NULL },
    { ".DS_Store", NULL },
    { ".pytest_cache/", NULL },
    { ".mypy_cache/", NULL },
    { ".ruff_cache/", NULL },
    { ".ipynb_checkpoints/", NULL },
    { ".nyc_output/", NULL },
    { ".reuse/", NULL },
    { ".changeset/", NULL },
};

/* Other names. Settings that a program reads only when a developer starts it (Makefile,
 * package.json, pyproject.toml, Cargo.toml and build.rs, conftest.py) are no such names: editing
 * them is the everyday work of an agent. docs/SECURITY.md lists them. */
static const struct sensitive_row plain_rows[] = {
    /* A file HEAD beside "objects" and "refs" makes any directory a git directory with a config. */
    { "HEAD", "git treats the directory of such a file as a repository and obeys its config" },

    /* Started by installed git hooks. */
    { "lefthook.*", "git hooks run the programs it names" },
    { "lefthook-local.*", "git hooks run the programs it names" },
    { "commitlint.config.*", "git hooks and editors run it" },

    /* Run by a shell, or by a tool that the shell starts, on entering the directory. */
    { "mise.toml", "mise runs the hooks it names" },
    { "mise.*.toml", "mise runs the hooks it names" },
    { "mise/config.toml", "mise runs the hooks it names" },
    { "mise/config.*.toml", "mise runs the hooks it names" },
    { "mise/conf.d/", "mise runs the hooks it names" },
    { "flake.nix", "direnv runs the shell hook it names" },
    { "shell.nix", "direnv runs the shell hook it names" },
    { "devenv.nix", "direnv runs the shell hook it names" },
    { "devbox.json", "direnv runs the shell hook it names" },

    /* Run by an editor that opens the directory, or by the linter, formatter, test runner or
     * language server that the editor starts. */
    { "*.code-workspace", "editors run tasks and programs that it names" },
    { "eslint.config.*", "editors run it to lint" },
    { "stylelint.config.*", "editors run it to lint" },
    { "pylintrc", "editors load the plug-ins it names" },
    { "pylintrc.toml", "editors load the plug-ins it names" },
    { "prettier.config.*", "editors run it to format" },
    { "tailwind.config.*", "editors run it to complete class names" },
    { "postcss.config.*", "editors run it with the language server" },
    { "svelte.config.*", "editors run it with the language server" },
    { "babel.config.*", "editors run it with the linter or test runner" },
    { "vite.config.*", "editors run it to find tests" },
    { "vitest.config.*", "editors run it to find tests" },
    { "vitest.workspace.*", "editors run it to find tests" },
    { "jest.config.*", "editors run it to find tests" },
    { "playwright.config.*", "editors run it to find tests" },
    { "webpack.config.*", "editors run it to resolve modules" },

    /* Run or obeyed by an agent that is started in the directory. */
    { "AGENT.md", "agents obey it" },
    { "AGENTS.md", "agents obey it" },
    { "AGENTS.*.md", "agents obey it" },
    { "CLAUDE.md", "agents obey it" },
    { "CLAUDE.*.md", "agents obey it" },
    { "CODEBUDDY.md", "agents obey it" },
    { "CODEX.md", "agents obey it" },
    { "CRUSH.md", "agents obey it" },
    { "CRUSH.*.md", "agents obey it" },
    { "GEMINI.md", "agents obey it" },
    { "IFLOW.md", "agents obey it" },
    { "JULES.md", "agents obey it" },
    { "QWEN.md", "agents obey it" },
    { "REPLIT.md", "agents obey it" },
    { "WARP.md", "agents obey it" },
    { "crush.json", "agents start servers that it names" },
    { "mcp.json", "agents start servers that it names" },
    { "opencode.json", "agents start servers that it names" },
    { "opencode.jsonc", "agents start servers that it names" },

    /* Of a home directory. */
    { "~/bin/", "it can replace any program" },
    { "~/Desktop/", "the desktop starts programs from it" },
    { "~/Library/", "sessions start programs that it names" },

    /* Of the system. */
    { "/usr/src/", NULL },
    { "/usr/local/src/", NULL },
    { "/bin/", "it is a directory of the system" },
    { "/boot/", "it is a directory of the system" },
    { "/etc/", "it is a directory of the system" },
    { "/lib/", "it is a directory of the system" },
    { "/lib64/", "it is a directory of the system" },
    { "/sbin/", "it is a directory of the system" },
    { "/usr/", "it is a directory of the system" },
    { "/var/spool/", "it is a directory of the system" },
};

/* The harmless rows beneath which a file HEAD passes. */
enum head_rule {
    HEAD_HELD,
    HEAD_PASSES,
    HEAD_ALONE, /* it passes unless settings of a repository lie beside it */
};
static const struct {
    const char *pattern;
    enum head_rule rule;
} head_rules[] = {
    { ".git/*HEAD", HEAD_PASSES },
    { ".git/refs/", HEAD_ALONE },
    { ".git/logs/", HEAD_ALONE },
};

/* Names of a repository's git directory, held where a file HEAD lies beside them. */
static const struct sensitive_row repository_rows[] = {
    { "config", "git runs programs that the settings of this repository name" },
    { "config.worktree", "git runs programs that the settings of this repository name" },
    { "commondir", "git reads the settings of this repository where this file points" },
    { "gitdir", "git takes the directory that this file names for a work tree" },
    { "hooks/", "git runs the hooks of this repository" },
    { "info/attributes", "git runs the filters that it assigns to files" },
};
/* Those that alone give a directory with a HEAD power over the host. */
static const char *const repository_settings[] = { "config", "commondir", "hooks" };

static bool part_matches(const char *a, const char *b, size_t n, bool exact)
{
    return exact ? memcmp(a, b, n) == 0 : strncasecmp(a, b, n) == 0;
}

static bool component_matches(struct str pattern, struct str name, bool exact)
{
    struct str start, end = str_cut(pattern, '*', &start);

    if (start.n == pattern.n)
        return name.n == pattern.n && part_matches(name.p, pattern.p, name.n, exact);
    return name.n >= start.n + end.n && part_matches(name.p, start.p, start.n, exact) &&
           part_matches(name.p + name.n - end.n, end.p, end.n, exact);
}

/* A pattern against a path that begins where it could match. */
static bool pattern_matches(struct str pattern, struct str path, bool exact)
{
    struct str want, name;

    while (pattern.n > 0) {
        if (path.n == 0)
            return false;
        pattern = str_cut(pattern, '/', &want);
        path = str_cut(path, '/', &name);
        if (!component_matches(want, name, exact))
            return false;
        if (pattern.p && pattern.n == 0) /* it ended in a slash */
            return true;
    }
    return path.n == 0;
}

/* A component of the whole path, with all that follows it. */
struct position {
    const struct sensitive_view *view;
    const char *whole;      /* the path of the mirrored directory and the path in it */
    struct str raw, folded; /* the rest of the path, as it is and as spelling.h folds it */
    enum head_rule head;    /* of the harmless directories above */
};

/* The end of the component's directory in the whole path. */
static size_t directory_end(const struct position *at)
{
    return (size_t)(at->raw.p - at->whole) - 1;
}

static bool lies_above(const struct position *at)
{
    return directory_end(at) < at->view->place->n;
}

static unsigned directory_marks(const struct position *at)
{
    size_t end = directory_end(at);

    return end <= at->view->place->n ? at->view->place->marks[end] : 0;
}

/* Whether a name lies beside the component. */
static bool has_beside(const struct position *at, const char *name)
{
    size_t end = directory_end(at), top = at->view->place->n;
    struct str dir = { at->whole + top, 0 };

    if (lies_above(at) || !at->view->has)
        return false;
    if (end > top)
        dir = (struct str){ at->whole + top + 1, end - top - 1 };
    return at->view->has(at->view->ctx, dir, name);
}

static bool row_matches(const struct sensitive_row *row, const struct position *at)
{
    const char *pattern = row->pattern;
    bool exact = !row->why;

    if (pattern[0] == '/' && directory_end(at) != 0)
        return false;
    if (pattern[0] == '~' && !(directory_marks(at) & PLACE_HOME))
        return false;
    pattern += pattern[0] == '/' ? 1 : pattern[0] == '~' ? 2 : 0;
    return pattern_matches(str_from(pattern), exact ? at->raw : at->folded, exact);
}

static const struct sensitive_row *find_row(const struct sensitive_row *rows, size_t n,
                                            const struct position *at)
{
    for (size_t i = 0; i < n; i++)
        if (row_matches(&rows[i], at))
            return &rows[i];
    return NULL;
}

static enum head_rule head_rule_of(const struct sensitive_row *row)
{
    for (size_t i = 0; i < COUNT_OF(head_rules); i++)
        if (strcmp(head_rules[i].pattern, row->pattern) == 0)
            return head_rules[i].rule;
    return HEAD_HELD;
}

static bool head_passes(const struct position *at)
{
    bool settings = false;

    for (size_t i = 0; i < COUNT_OF(repository_settings); i++)
        settings |= has_beside(at, repository_settings[i]);
    return at->head == HEAD_PASSES || (at->head == HEAD_ALONE && !settings);
}

static const char *judge_repository(const struct position *at)
{
    const struct sensitive_row *row = find_row(repository_rows, COUNT_OF(repository_rows), at);

    if (row && ((directory_marks(at) & PLACE_HEAD) || has_beside(at, "HEAD")))
        return row->why;
    return NULL;
}

static const char *judge_component(struct position *at)
{
    bool dot = at->folded.p[0] == '.';
    const struct sensitive_row *row = dot ? find_row(dot_rows, COUNT_OF(dot_rows), at)
                                          : find_row(plain_rows, COUNT_OF(plain_rows), at);
    struct str name;

    (void)str_cut(at->folded, '/', &name);
    if (!row && dot)
        return lies_above(at) ? "the workspace lies in a hidden directory, whose files programs "
                                "of the host may obey"
                              : "programs of the host may obey a hidden file of a name we do not "
                                "know";
    if (row && !row->why)
        at->head = head_rule_of(row);
    else if (row && !(component_matches(STR("HEAD"), name, false) && head_passes(at)))
        return row->why;
    if (spelling_is_short(name))
        return "some file systems take it for the short form of a hidden name";
    return judge_repository(at);
}

static size_t join_paths(const struct sync_place *place, struct str path, char *ret)
{
    memcpy(ret, place->path, place->n);
    ret[place->n] = '/';
    memcpy(ret + place->n + 1, path.p, path.n);
    return place->n + 1 + path.n;
}

const char *sensitive_reason(const struct sensitive_view *v, struct str path)
{
    char whole[PATH_MAX + TREE_PATH_MAX], folded[PATH_MAX + TREE_PATH_MAX];
    struct position at = { .view = v, .whole = whole };
    struct str name;

    if (!v->place->known || path.n >= TREE_PATH_MAX)
        return "the path of the workspace on the host is not known";
    at.raw = (struct str){ whole + 1, join_paths(v->place, path, whole) - 1 };
    at.folded = (struct str){ folded, spelling_fold(at.raw, folded) };
    while (at.raw.n > 0) {
        const char *why = judge_component(&at);

        if (why)
            return why;
        at.raw = str_cut(at.raw, '/', &name);
        at.folded = str_cut(at.folded, '/', &name);
    }
    return NULL;
}

bool sensitive_place(const struct sync_place *place)
{
    const struct sensitive_view view = { .place = place };

    /* A name in no row: only the parent directories decide. */
    return sensitive_reason(&view, STR("x")) != NULL;
}
