# SPDX-License-Identifier: Apache-2.0
# A bash session that runs code in pieces. A request is a line of bash that reads the code as a script between the two functions
# below; the code's output is passed through unencoded. The session's own lines on stdout begin with the request's id, after a mark
# that ends an incomplete line; marks on stderr delimit the output of a request.
#
# SIGINT ends the code that runs, and nothing else: the trap leaves the innermost function or script, and DEBUG, which precedes
# each command, those around it. Outside of them BASH_SOURCE is empty.
exec 7>&1 8>&2 9<&0 </dev/null
trap '' INT

__sandboxer_leave='[[ ${#BASH_SOURCE[@]} = 0 || ${FUNCNAME-} = __sandboxer_* ]] || return 130'

__sandboxer_begin() {
    trap 'set -T; trap "$__sandboxer_leave" DEBUG; eval "$__sandboxer_leave"' INT
    printf '\36\n%s {"type":"number_of_executions","execution_count":%d}\n' "$1" "$((++__sandboxer_count))" >&7
    printf '\36+%s\n' "$1" >&8
}

__sandboxer_end() {
    trap '' INT
    trap - DEBUG
    set +T
    printf '\36-%s\n' "$1" >&8
    [ "$2" = 0 ] || printf '\36\n%s {"type":"error","name":"ExitStatus","value":"%d","traceback":"exit status %d"}\n' "$1" "$2" "$2" >&7
    printf '\36\n%s end\n' "$1" >&7
}

# A line that is no request is skipped: a daemon that stops may leave a part of one.
while IFS= read -r -u 9 __sandboxer_line; do
    [[ $__sandboxer_line != '__sandboxer_begin '*'; __sandboxer_end '*' $?' ]] || eval "$__sandboxer_line"
done
