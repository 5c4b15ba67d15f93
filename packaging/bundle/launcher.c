/* Contents/MacOS/Slipstream and Contents/MacOS/python3: Python out of the bundle they are in.

   With MODULE defined, the window: runs that module, and all arguments are the module's. Without,
   the interpreter, which the window starts the engine with and multiprocessing its workers: for
   both it is sys.executable.

   What the shell has set for another Python or another Qt is ignored, and nothing is written into
   the bundle. The few functions of libpython's C interface are declared here: it is loaded from
   the bundle, so that there is nothing to link with. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#define FAILED 70 /* EX_SOFTWARE */
#define INSIDE "/Contents/MacOS/"

static int fail(const char *what, const char *why) {
    fprintf(stderr, "Slipstream cannot start: %s%s. Install it again.\n", what, why ? why : "");
    return FAILED;
}

/* The real path of this program. */
static int own_path(char path[PATH_MAX]) {
    char raw[PATH_MAX];
#ifdef __APPLE__
    uint32_t size = sizeof raw;
    if (_NSGetExecutablePath(raw, &size) != 0) return 0;
#else
    ssize_t size = readlink("/proc/self/exe", raw, sizeof raw - 1);
    if (size < 0) return 0;
    raw[size] = 0;
#endif
    return realpath(raw, path) != NULL;
}

/* Isolated: no PYTHON* variables, no packages of the user's. No .pyc written. Text is UTF-8. */
static char *const options[] = {
    "-I", "-B", "-X", "utf8",
#ifdef MODULE
    "-m", MODULE,
#endif
};

static void *library;
static int missing;

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL && !missing++) fail("libpython lacks ", name);
    return found;
}

int main(int argc, char **argv) {
    char path[PATH_MAX], bundle[PATH_MAX], python[PATH_MAX];
    if (!own_path(path)) return fail("it does not find itself", NULL);
    char *inside = strstr(path, INSIDE);
    for (char *next; inside && (next = strstr(inside + 1, INSIDE)); inside = next) {}
    if (inside == NULL) return fail("it was taken out of its bundle", NULL);
    snprintf(bundle, sizeof bundle, "%.*s/Contents", (int)(inside - path), path);
    /* Room for the longest path below. */
    if (strlen(bundle) + 64 > sizeof bundle) return fail("its path is too long", NULL);

    snprintf(python, sizeof python, "%s/Resources/python/lib/python3.13/bases/lib/Python", bundle);
    library = dlopen(python, RTLD_NOW | RTLD_GLOBAL); /* extension modules look there */
    if (library == NULL) return fail("", dlerror());

    wchar_t *(*decode)(const char *, size_t *) = symbol("Py_DecodeLocale");
    void (*set_name)(const wchar_t *) = symbol("Py_SetProgramName");
    void (*set_home)(const wchar_t *) = symbol("Py_SetPythonHome");
    int (*run)(int, char **) = symbol("Py_BytesMain");
    if (missing) return FAILED;

    /* Not covered by -I: on a Mac, what says that another is sys.executable; plugins of a Qt. */
    unsetenv("PYTHONEXECUTABLE");
    unsetenv("__PYVENV_LAUNCHER__");
    unsetenv("QT_PLUGIN_PATH");
    unsetenv("QT_QPA_PLATFORM_PLUGIN_PATH");
    snprintf(python, sizeof python, "%s/Resources/python", bundle);
    set_home(decode(python, NULL)); /* sys.prefix */
    snprintf(python, sizeof python, "%s/MacOS/python3", bundle);
    set_name(decode(python, NULL)); /* sys.executable */

    char **arguments = calloc((size_t)argc + sizeof options / sizeof *options + 2, sizeof(char *));
    if (arguments == NULL) return fail("there is no memory left", NULL);
    int count = 0;
    arguments[count++] = python;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) arguments[count++] = options[i];
    for (int i = 1; i < argc; i++) arguments[count++] = argv[i];
    return run(count, arguments);
}
