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
    const char *patterns; /* separated by blanks */
    const char *why;      /* NULL: harmless, independent of later rows */
};

/* The harmless rows beneath which a file HEAD passes: always, or unless settings of a repository
 * lie beside it. */
enum { ROW_GIT_HEAD, ROW_GIT_REFS };

/* Names that begin with a dot. */
static const struct sensitive_row dot_rows[] = {
    /* In a git directory, the files that commits and fetches write. All others name programs, or
     * may do so in a later git: config, config.worktree, hooks, commondir, modules, worktrees, the
     * todo list of a rebase. The same holds for ".git" as a file or link, which points at the git
     * directory. */
    [ROW_GIT_HEAD] = { ".git/*HEAD", NULL },
    [ROW_GIT_REFS] = { ".git/refs/ .git/logs/", NULL },
    { ".git/info/attributes", "git runs the filters that it assigns to files" },
    { ".git/objects/ .git/info/ .git/packed-refs .git/index .git/shallow .git/description "
      ".git/COMMIT_EDITMSG .git/MERGE_MSG .git/MERGE_MODE .git/SQUASH_MSG .git/TAG_EDITMSG "
      ".git/AUTO_MERGE .git/MERGE_RR .git/gc.log",
      NULL },
    { ".git/", "git runs programs that this file can name" },
    { ".hg/", "Mercurial runs hooks that its settings name" },
    { ".jj/", "jj runs programs that its settings name" },
    { ".svn/", "Subversion obeys it" },

    /* Started by installed git hooks. */
    { ".husky/ .githooks/", "git hooks run it" },
    { ".pre-commit-config.yaml", "the pre-commit hook runs the programs it names" },

    /* Run by a shell, or by a tool that the shell starts, on entering the directory. */
    { ".envrc", "direnv runs it" },
    { ".env", "shells and editors load it" },
    { ".mise.toml .mise.local.toml .mise/", "mise runs the hooks it names" },
    { ".venv/", "editors and shells run the interpreter in it" },

    /* Run by an editor that opens the directory, or by the linter or language server of one. */
    { ".vscode/ .idea/", "editors run tasks and programs that it names" },
    { ".devcontainer/ .devcontainer.json", "editors run commands on the host that it names" },
    { ".zed/", "editors run programs that it names" },
    { ".exrc .vimrc .nvimrc .nvim.lua", "vim runs it" },
    { ".dir-locals.el .dir-locals-2.el", "Emacs evaluates it" },
    { ".cargo/", "cargo and rust-analyzer run programs that it names" },
    { ".pylintrc", "editors load the plug-ins it names" },
    { ".yarnrc.yml", "yarn runs programs that it names" },
    { ".Rprofile", "R runs it" },
    { ".pdbrc", "the Python debugger runs it" },
    { ".gdbinit", "gdb runs it" },
    { ".lldbinit", "lldb runs it" },

    /* Run or obeyed by an agent that is started in the directory. Worktrees are checkouts: their
     * files are judged by their own names. */
    { ".claude/worktrees/ .worktrees/", NULL },
    { ".mcp.json .github/mcp.json .github/lsp.json", "agents start servers that it names" },
    { ".claude/ .cursor/ .gemini/", "agents obey it and run hooks that it names" },
    { ".codex/ .gitlab/duo/", "agents obey it and start servers that it names" },
    { ".roo/ .kiro/ .amazonq/ .windsurf/ .aider.conf.yml .opencode/ .github/instructions/ "
      ".github/copilot-instructions.md .github/prompts/ .github/chatmodes/ .github/agents/ "
      ".github/skills/ .github/copilot/",
      "agents obey it" },
    { ".github/hooks/", "agents run it" },

    /* Obeyed by a web server that serves the directory. */
    { ".htaccess .user.ini", "web servers obey it" },

    /* Start-up files and settings of a user. */
    { ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshenv .zprofile "
      ".zshrc .zlogin .zlogout .config/fish/",
      "shells run it" },
    { ".xprofile .config/autostart/ .config/systemd/", "sessions run it" },
    { ".ssh/", "it decides who can log in, and which programs ssh runs" },
    { ".gitconfig .config/git/", "git runs programs that it names" },
    { ".config/environment.d/", "sessions take their environment from it" },
    { ".local/bin/", "it can replace any program" },

    /* Names with a dot that no program of the host executes or obeys by itself. */
    { ".gitignore .gitattributes .gitkeep .keep .mailmap .git-blame-ignore-revs .hgignore .ignore "
      ".rgignore .dockerignore .containerignore .npmignore .eslintignore .prettierignore "
      ".stylelintignore .vercelignore .gcloudignore .helmignore .editorconfig .clang-format "
      ".clang-format-ignore .browserslistrc .nvmrc .node-version .python-version .ruby-version "
      ".java-version .env.example .env.sample .env.template .github/ .gitlab/ .gitlab-ci.yml "
      ".gitea/ .forgejo/ .circleci/ .travis.yml .drone.yml .woodpecker/ .woodpecker.yml "
      ".readthedocs.yaml .readthedocs.yml .codecov.yml .coverage .nojekyll .well-known/ .DS_Store "
      ".pytest_cache/ .mypy_cache/ .ruff_cache/ .ipynb_checkpoints/ .nyc_output/ .reuse/ "
      ".changeset/",
      NULL },
};

/* Other names. Settings that a program reads only when a developer starts it (Makefile,
 * package.json, pyproject.toml, Cargo.toml and build.rs, conftest.py) are no such names: editing
 * them is the everyday work of an agent. docs/SECURITY.md lists them. */
static const struct sensitive_row plain_rows[] = {
    /* A file HEAD beside "objects" and "refs" makes any directory a git directory with a config. */
    { "HEAD", "git treats the directory of such a file as a repository and obeys its config" },

    /* Started by installed git hooks. */
    { "lefthook.* lefthook-local.*", "git hooks run the programs it names" },
    { "commitlint.config.*", "git hooks and editors run it" },

    /* Run by a shell, or by a tool that the shell starts, on entering the directory. */
    { "mise.toml mise.*.toml mise/config.toml mise/config.*.toml mise/conf.d/",
      "mise runs the hooks it names" },
    { "flake.nix shell.nix devenv.nix devbox.json", "direnv runs the shell hook it names" },

    /* Run by an editor that opens the directory, or by the linter, formatter, test runner or
     * language server that the editor starts. */
    { "*.code-workspace", "editors run tasks and programs that it names" },
    { "eslint.config.* stylelint.config.*", "editors run it to lint" },
    { "pylintrc pylintrc.toml", "editors load the plug-ins it names" },
    { "prettier.config.*", "editors run it to format" },
    { "tailwind.config.*", "editors run it to complete class names" },
    { "postcss.config.* svelte.config.*", "editors run it with the language server" },
    { "babel.config.*", "editors run it with the linter or test runner" },
    { "vite.config.* vitest.config.* vitest.workspace.* jest.config.* playwright.config.*",
      "editors run it to find tests" },
    { "webpack.config.*", "editors run it to resolve modules" },

    /* Run or obeyed by an agent that is started in the directory. */
    { "AGENT.md AGENTS.md AGENTS.*.md CLAUDE.md CLAUDE.*.md CODEBUDDY.md CODEX.md CRUSH.md "
      "CRUSH.*.md GEMINI.md IFLOW.md JULES.md QWEN.md REPLIT.md WARP.md",
      "agents obey it" },
    { "crush.json mcp.json opencode.json opencode.jsonc", "agents start servers that it names" },

    /* Of a home directory. */
    { "~/bin/", "it can replace any program" },
    { "~/Desktop/", "the desktop starts programs from it" },
    { "~/Library/", "sessions start programs that it names" },

    /* Of the system. */
    { "/usr/src/ /usr/local/src/", NULL },
    { "/bin/ /boot/ /etc/ /lib/ /lib64/ /sbin/ /usr/ /var/spool/",
      "it is a directory of the system" },
};

/* Names of a repository's git directory, held where a file HEAD lies beside them. */
static const struct sensitive_row repository_rows[] = {
    { "config config.worktree", "git runs programs that the settings of this repository name" },
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
    const struct sensitive_row *harmless; /* the row of the last harmless component, or NULL */
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
    struct str rest = str_from(row->patterns), pattern;
    bool exact = !row->why;

    while (rest.n > 0) {
        size_t anchor;

        rest = str_cut(rest, ' ', &pattern);
        anchor = pattern.p[0] == '/' ? 1 : pattern.p[0] == '~' ? 2 : 0;
        if ((anchor == 1 && directory_end(at) != 0) ||
            (anchor == 2 && !(directory_marks(at) & PLACE_HOME)))
            continue;
        pattern = (struct str){ pattern.p + anchor, pattern.n - anchor };
        if (pattern_matches(pattern, exact ? at->raw : at->folded, exact))
            return true;
    }
    return false;
}

static const struct sensitive_row *find_row(const struct sensitive_row *rows, size_t n,
                                            const struct position *at)
{
    for (size_t i = 0; i < n; i++)
        if (row_matches(&rows[i], at))
            return &rows[i];
    return NULL;
}

static bool head_passes(const struct position *at)
{
    bool settings = false;

    for (size_t i = 0; i < COUNT_OF(repository_settings); i++)
        settings |= has_beside(at, repository_settings[i]);
    return at->harmless == &dot_rows[ROW_GIT_HEAD] ||
           (at->harmless == &dot_rows[ROW_GIT_REFS] && !settings);
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
        at->harmless = row;
    else if (row && !(component_matches(STR("HEAD"), name, false) && head_passes(at)))
        return row->why;
    if (spelling_is_short(name))
        return "some file systems take it for the short form of a hidden name";
    row = find_row(repository_rows, COUNT_OF(repository_rows), at);
    return row && ((directory_marks(at) & PLACE_HEAD) || has_beside(at, "HEAD")) ? row->why : NULL;
}

const char *sensitive_reason(const struct sensitive_view *v, struct str path)
{
    char whole[PATH_MAX + TREE_PATH_MAX], folded[PATH_MAX + TREE_PATH_MAX];
    struct position at = { .view = v, .whole = whole };
    struct str name;

    if (!v->place->known || path.n >= TREE_PATH_MAX)
        return "the path of the workspace on the host is not known";
    memcpy(whole, v->place->path, v->place->n);
    whole[v->place->n] = '/';
    memcpy(whole + v->place->n + 1, path.p, path.n);
    at.raw = (struct str){ whole + 1, v->place->n + path.n };
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
