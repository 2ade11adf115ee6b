#include "harness/tap.h"
