#include "mirror/sensitive.h"

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
    { "fixtures/.bashrc", false },
    { "bin/tool", false },
    { ".config/nextest.toml", false },
    { "envrc", false },
};

TEST(paths_)
{
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if ((sensitive_reason(str_from(paths[i].path)) != NULL) != paths[i].sensitive)
            FAIL("%s", paths[i].path);
}
