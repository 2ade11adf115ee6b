/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over files, for compilers without libFuzzer: every seed and every input that
 * once broke something is an ordinary test. Arguments are files or directories of files. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 20 };

static int number;

static void run_file(const char *path)
{
    uint8_t *data = malloc(INPUT_MAX);
    FILE *f = fopen(path, "rb");
    size_t n;

    if (!f || !data) {
        printf("Bail out! cannot read %s\n", path);
        exit(1);
    }
    n = fread(data, 1, INPUT_MAX, f);
    fclose(f);
    data = realloc(data, n ? n : 1); /* exact size, so that the sanitizer sees one byte too far */
    LLVMFuzzerTestOneInput(data, n);
    free(data);
    printf("ok %d - %s\n", ++number, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
}

static void run_path(const char *path)
{
    struct dirent **names;
    struct stat st;
    char full[4096];
    int n;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        run_file(path);
        return;
    }
    n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            snprintf(full, sizeof full, "%s/%s", path, names[i]->d_name);
            run_file(full);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++)
        run_path(argv[i]);
    printf("1..%d\n", number);
    return number ? 0 : 1;
}
