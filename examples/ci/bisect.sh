#!/bin/sh
# The exit code of an ncu-swizzle command for `git bisect run`: 0 good, 1 bad, 125 this commit cannot be tested.
#
#     git bisect run sh bisect.sh lint my-kernel --against v1.0

ncu-swizzle "$@"
status=$?
case $status in
    0 | 1) ;;
    2 | 3 | 4 | 5 | 70) status=125 ;; # it does not compile, something is missing, or counts are unknown
    *) status=128 ;;                  # Ctrl-C or another signal ends the search
esac
exit "$status"
