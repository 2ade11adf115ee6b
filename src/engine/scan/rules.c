/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scan/rules.h"

#include "base/own.h"

/* Places whose loss is the loss of the machine, or of a person's work. */
#define ROOTS                                                                                      \
    "/|/%|/.|/./|//|~|~/|~/%|$HOME|$HOME/|$HOME/%|/home|/home/|/home/%|/home/^|/etc|/etc/|/etc/%|" \
    "/usr|/usr/|/usr/%|/var|/var/|/var/%|/var/lib|/var/lib/%|/boot|/boot/|/boot/%|/bin|/bin/%|"    \
    "/sbin|/sbin/%|/lib|/lib/%|/lib64|/root|/root/|/root/%|/opt|/opt/%|/srv|/srv/%|/dev|/dev/%|"   \
    "/sys|/proc|/mnt|/mnt/%|/usr/lib|/usr/bin"
#define DISKS                                                                                      \
    "/dev/sd*|/dev/hd*|/dev/vd*|/dev/xvd*|/dev/nvme*|/dev/mmcblk*|/dev/mapper/*|/dev/md*|"         \
    "/dev/disk*|/dev/dm-*"
#define DD_DISKS                                                                                   \
    "of=/dev/sd*|of=/dev/hd*|of=/dev/vd*|of=/dev/xvd*|of=/dev/nvme*|of=/dev/mmcblk*|"              \
    "of=/dev/mapper/*|of=/dev/md*|of=/dev/disk*|of=/dev/mem|of=/dev/kmem"
#define SECRETS                                                                                    \
    "*.ssh/*|*.ssh|*.aws/credentials*|*.aws|*.netrc|*/etc/shadow*|*.gnupg*|*.kube/config*|"        \
    "*.docker/config.json*|*.git-credentials*|*.bash_history*|*.zsh_history*|*wallet.dat*|"        \
    "*Login Data*|*.config/gcloud*|/proc/*/environ|*/run/secrets*|*cookies.sqlite*|*.mozilla/*|"   \
    "*id_rsa|*id_ed25519|*.npmrc|*.pypirc|*keystore*/UTC*|*.password-store*|*.azure/*|"            \
    "*.vault-token*|*Local State|*.config/gh/hosts.yml|*.config/google-chrome*|"                   \
    "*.config/chromium*|*BraveSoftware*|*/Cookies|*.config/solana*|*.ethereum/*|*.bitcoin/*|"      \
    "*.electrum/*|*Exodus/*"
#define METADATA                                                                                   \
    "*169.254.169.254*|*metadata.google.internal*|*100.100.100.200*|*fd00:ec2::254*|"              \
    "*169.254.170.2*"
#define SENDERS                                                                                    \
    "curl|wget|nc|ncat|netcat|scp|rsync|ftp|tftp|sftp|telnet|socat|mail|sendmail|mutt|http|https|" \
    "ssh|rclone|aws|gsutil"
#define DOWNLOADERS "curl|wget|fetch|aria2c|http|https|lwp-request|lynx|GET"
#define SHELLS                                                                                     \
    "sh|bash|zsh|ksh|dash|ash|eval|source|.|(run)|python|python2*|python3*|perl|ruby|node|php"
#define PY_SENDERS                                                                                 \
    "requests.*|urllib.request.*|urllib2.*|http.client.*|httpx.*|aiohttp.*|*.sendall|*.send|"      \
    "*.sendto|*.sendmail|*.send_message|ftplib.*|*.storbinary|smtplib.*|*.put_object|"             \
    "*.upload_file|urlopen|*.post|*.urlopen|paramiko.*"
#define JS_SENDERS                                                                                 \
    "fetch|axios|axios.*|http.request|https.request|http.get|https.get|*.write|*.end|net.connect|" \
    "got|got.*|*.send|request|request.*|needle|superagent.*|navigator.sendBeacon|*.sendMail|"      \
    "dns.resolve*|dns.lookup|node-fetch|undici.*"
#define PY_RUN                                                                                     \
    "exec|eval|compile|os.system|os.popen|subprocess.*|builtins.exec|builtins.eval|Popen|"         \
    "types.FunctionType|marshal.loads|pickle.loads"
#define JS_RUN                                                                                     \
    "eval|Function|vm.*|child_process.*|execSync|setTimeout|setInterval|globalThis.eval|"          \
    "window.eval|exec|spawn|Module._compile|*._compile|*.constructor"

#define BE_SURE    "Delete only files that this program created, by full path."
#define NO_DISK    "Write to a file instead of a disk device."
#define LOOK_UP    "Save the download to a file, read it, and check its hash before you run it."
#define NO_SECRETS "Pass the program only the credentials that it needs, by name."
#define PLAIN      "Write the code plainly, so that it can be reviewed."
#define BOUND      "Set a limit: a count, a size or a time."
#define LOOK_WHO   "Check where this connects to, and why."

#define D    SCAN_DESTRUCTIVE
#define E    SCAN_EXFILTRATING
#define O    SCAN_OBFUSCATED
#define R    SCAN_EXHAUSTING
#define CRIT SCAN_CRITICAL
#define HIGH SCAN_HIGH
#define MED  SCAN_MEDIUM
#define SH   IN_SHELL
#define PY   IN_PYTHON
#define JS   IN_JAVASCRIPT

/* A rule: id, languages, severity, class, match; then the patterns; then message and advice. */
#define REPORT(m, a) .message = (m), .advice = (a)

/* Reports of several rules. */
#define DELETES_TREE REPORT("recursively deletes a system directory or a home directory", BE_SURE)
#define DELETES_FOUND                                                                              \
    REPORT("deletes files found in a system directory or a home directory", BE_SURE)
#define DELETES_SYSTEM REPORT("deletes system files", BE_SURE)
#define WRITES_SYSTEM                                                                              \
    REPORT("writes a critical system file", "Leave the system's files to its administrator.")
#define SENDS_SECRETS   REPORT("sends credentials to another machine", NO_SECRETS)
#define READS_SECRETS   REPORT("reads credentials", NO_SECRETS)
#define READS_AND_SENDS REPORT("reads credentials and uses the network", NO_SECRETS)
#define SENDS_ENVIRONMENT                                                                          \
    REPORT("sends all environment variables, including secrets, to another machine", NO_SECRETS)
#define ASKS_METADATA                                                                              \
    REPORT("queries the cloud metadata service, which returns the machine's credentials",          \
           NO_SECRETS)
#define REVERSE_SHELL     REPORT("connects a shell to another machine (reverse shell)", LOOK_WHO)
#define RUNS_DOWNLOAD     REPORT("runs downloaded code without checking it", LOOK_UP)
#define RUNS_DECODED      REPORT("runs code that it decodes first", PLAIN)
#define ENDLESS_PROCESSES REPORT("starts processes or threads in an endless loop", BOUND)
#define FLOOD             REPORT("sends packets in an endless loop: a flood", BOUND)
#define MINES             REPORT("mines cryptocurrency", "Do not run it.")

const struct scan_rule scan_rules[] = {
    /* --- Shell: destroying --- */
    { "shell.rm-root", SH, CRIT, D, MATCH_ACT, .name = "rm", .flags = "r", .args = ROOTS,
      DELETES_TREE },
    { "shell.rm-no-preserve", SH, CRIT, D, MATCH_ACT, .name = "rm", .args = "--no-preserve-root",
      REPORT("deletes the root directory", BE_SURE) },
    { "shell.rm-unset", SH, MED, D, MATCH_ACT, .name = "rm", .flags = "r", .args = "$*/|$*/%",
      REPORT("deletes from the root directory if the variable is empty",
             "Use ${NAME:?}, so that an empty variable is an error.") },
    { "shell.find-delete", SH, CRIT, D, MATCH_ACT, .name = "find", .args = ROOTS,
      .also = "-delete|rm|shred|unlink", DELETES_FOUND },
    { "shell.mkfs", SH, CRIT, D, MATCH_ACT,
      .name = "mkfs*|mke2fs|mkswap|wipefs|blkdiscard|sgdisk|parted|fdisk|sfdisk|badblocks|hdparm",
      .args = "/dev/*",
      REPORT("overwrites a disk with a new file system or partition table", NO_DISK) },
    { "shell.dd-disk", SH, CRIT, D, MATCH_ACT, .name = "dd|dcfldd", .args = DD_DISKS,
      REPORT("overwrites a disk", NO_DISK) },
    { "shell.write-disk", SH, CRIT, D, MATCH_ACT, .name = ">|tee|cp", .args = DISKS,
      REPORT("overwrites a disk", NO_DISK) },
    { "shell.shred", SH, HIGH, D, MATCH_ACT, .name = "shred|srm|wipe|scrub",
      .args = "/dev/*|/*|~*|$HOME*",
      REPORT("overwrites files so that they cannot be recovered", BE_SURE) },
    { "shell.volumes", SH, CRIT, D, MATCH_ACT,
      .name = "lvremove|vgremove|pvremove|zpool|zfs|cryptsetup|mdadm",
      .args = "-f|-ff|-y|destroy|erase|luksErase|--zero-superblock|--stop|/dev/*|*/*",
      REPORT("destroys volumes or their encryption keys", NO_DISK) },
    { "shell.mode-root", SH, HIGH, D, MATCH_ACT, .name = "chmod|chown|chgrp|setfacl", .flags = "R",
      .args = ROOTS,
      REPORT("changes permissions or owners of the whole system",
             "Change only the files that need it.") },
    { "shell.move-away", SH, CRIT, D, MATCH_ACT, .name = "mv", .args = "/dev/null",
      REPORT("moves files to a place where they are lost", BE_SURE) },
    { "shell.write-system", SH, HIGH, D, MATCH_ACT, .name = ">|tee|truncate",
      .args = "/etc/passwd|/etc/shadow|/etc/group|/boot/*|/etc/fstab|/etc/sudoers*|/etc/pam.d/*|/"
              "etc/ld.so.preload|/etc/ssh/*|/etc/hosts.allow|/usr/bin/*|/bin/*",
      REPORT("overwrites a critical system file",
             "Leave the system's files to its administrator.") },
    { "shell.kill-all", SH, HIGH, D, MATCH_ACT, .name = "kill", .args = "-1",
      .also = "-9|-KILL|-SIGKILL|-s",
      REPORT("kills all processes that it may signal",
             "Kill only the program's own processes, by PID.") },
    { "shell.sysrq", SH, CRIT, D, MATCH_ACT, .name = ">|tee",
      .args = "/proc/sysrq-trigger|/proc/sys/kernel/sysrq|/sys/power/state",
      REPORT("crashes or restarts the kernel",
             "Programs should not restart or stop the machine.") },
    { "shell.power", SH, HIGH, D, MATCH_ACT, .name = "shutdown|reboot|halt|poweroff|telinit",
      REPORT("shuts the machine down", "Programs should not restart or stop the machine.") },
    { "shell.setuid", SH, HIGH, D, MATCH_ACT, .name = "chmod|install",
      .args = "u+s|+s|ug+s|u+xs|4755|04755|4555|04555|4711|04711|4777|04777|6755|06755|-m4755|"
              "--mode=4755",
      REPORT("sets the set-user-id bit, so that a program runs as its owner",
             "Leave that to the administrator.") },
    { "shell.host-mounted", SH, CRIT, E, MATCH_ACT, .name = "docker|podman|nerdctl",
      .args = "/:/*|-v/:/*|--volume=/:/*|--mount=*source=/,*|*src=/,*|*source=/,*",
      REPORT("gives a container access to the whole machine",
             "Mount the one directory that the container needs.") },
    { "shell.protection", SH, MED, D, MATCH_ACT,
      .name = "iptables|nft|ufw|setenforce|systemctl|auditctl|swapoff|service",
      .args = "-F|flush|disable|stop|0|-e0|-a|mask",
      REPORT("disables a protection of the system", "Leave it to the administrator.") },
    { "shell.history", SH, MED, D, MATCH_ACT, .name = "history|unset|journalctl",
      .args = "-c|HISTFILE|--vacuum*",
      REPORT("erases the command history or the journal", "Do not delete logs or history.") },
    { "shell.logs", SH, HIGH, D, MATCH_ACT, .name = "rm|shred|truncate|>",
      .args = "/var/log|/var/log/*|*/wtmp|*/btmp|*/lastlog",
      REPORT("erases the system logs", "Do not delete logs or history.") },
    { "shell.users", SH, HIGH, D, MATCH_ACT, .name = "userdel|deluser|passwd|chpasswd|usermod",
      .args = "root|-d|-aG|--remove-home|-r",
      REPORT("removes or changes users", "Leave users to the administrator.") },
    { "shell.git-lost", SH, MED, D, MATCH_ACT, .name = "git", .args = "push|clean",
      .also = "--force|-f|-fdx|-ffdx",
      REPORT("discards uncommitted changes, or overwrites commits of others", "Ask before.") },
    { "shell.cron-removed", SH, MED, D, MATCH_ACT, .name = "crontab", .args = "-r",
      REPORT("removes a user's crontab", "Ask before.") },
    { "shell.containers", SH, MED, D, MATCH_ACT, .name = "docker|podman|kubectl",
      .args = "prune|delete", .also = "-a*|--all|-f|-af|--volumes|ns|namespace",
      REPORT("removes containers, volumes or namespaces", "Name the objects to remove.") },

    /* --- Shell: giving away, taking in --- */
    { "shell.download-run", SH, CRIT, E, MATCH_INTO, .name = DOWNLOADERS, .into = SHELLS,
      RUNS_DOWNLOAD },
    { "shell.secret-sent", SH, CRIT, E, MATCH_INTO,
      .name = "cat|cp|tar|base64|zip|gzip|openssl|xxd|dd|head|tail|grep|find|ls|while|curl|wget|nc|"
              "scp|rsync|strings|gpg|jq|awk|sed|<|od|rclone|7z",
      .args = SECRETS, .into = SENDERS "|dig|nslookup|host|ping|>", SENDS_SECRETS },
    { "shell.secret-form", SH, CRIT, E, MATCH_ACT, .name = "curl|wget|http|nc|scp|rsync|aws|rclone",
      .args = "*@*.ssh/*|*@*.aws/*|*@*.netrc|*@/etc/shadow|*@/etc/passwd|*=*.ssh/*|*.ssh/"
              "id_*|*.ssh/|*.aws/credentials|/etc/shadow|*@*.env|*@*.kube/*|*@*.docker/"
              "*|*.gnupg|*.gnupg/|*@*.git-credentials",
      .also = "http*|*:*|*.*/*|-F|-d|-T|--data*|--upload-file|*@*:*|s3*", SENDS_SECRETS },
    { "shell.secret-read", SH, MED, E, MATCH_ACT,
      .name = "cat|cp|tar|base64|zip|xxd|strings|head|tail|grep|<", .args = SECRETS,
      READS_SECRETS },
    { "shell.environment-sent", SH, CRIT, E, MATCH_INTO, .name = "env|printenv|set|declare",
      .into = SENDERS "|dig|nslookup|host", SENDS_ENVIRONMENT },
    { "shell.environment-bare", SH, SCAN_INFO, E, MATCH_ACT, .name = "printenv|env",
      REPORT("reads all environment variables", NO_SECRETS) },
    { "shell.metadata", SH, HIGH, E, MATCH_ACT,
      .name = "curl|wget|nc|http|fetch|lynx|GET|python*|ncat", .args = METADATA, ASKS_METADATA },
    { "shell.reverse-shell", SH, CRIT, E, MATCH_ACT, .name = "*",
      .args = "/dev/tcp/*|/dev/udp/*|*/dev/tcp/*", REVERSE_SHELL },
    { "shell.device-tcp", SH, CRIT, E, MATCH_ACT, .name = ">", .args = "/dev/tcp/*|/dev/udp/*",
      REPORT("sends data to another machine", LOOK_WHO) },
    { "shell.netcat-exec", SH, CRIT, E, MATCH_ACT, .name = "nc|ncat|netcat|socat|nc.traditional",
      .args = "-e|-c|-*e|--exec*|--sh-exec*|exec:*|EXEC:*|*exec:*|system:*|SYSTEM:*",
      REPORT("gives the remote end of a connection a shell", LOOK_WHO) },
    { "shell.netcat-pipe", SH, CRIT, E, MATCH_INTO, .name = "nc|ncat|netcat|telnet|socat|openssl",
      .into = "sh|bash|zsh|dash|ash|/bin/sh|eval",
      REPORT("runs commands received from another machine", LOOK_WHO) },
    { "shell.shell-to-netcat", SH, CRIT, E, MATCH_INTO, .name = "sh|bash|zsh|dash|ash|ksh",
      .flags = "i", .into = "nc|ncat|netcat|telnet|socat|openssl",
      REPORT("sends the output of a shell to another machine", LOOK_WHO) },
    { "shell.find-shred", SH, HIGH, D, MATCH_INTO, .name = "find|ls|locate|fd",
      .into = "shred|srm|wipe|scrub",
      REPORT("overwrites found files so that they cannot be recovered", BE_SURE) },
    { "shell.dns-carries", SH, HIGH, E, MATCH_ACT, .name = "dig|nslookup|host|ping|drill",
      .args = "*$()*|*$()", REPORT("sends data inside host names that it looks up", LOOK_WHO) },
    { "shell.keys-planted", SH, HIGH, E, MATCH_ACT, .name = ">|tee|cp|ssh-copy-id",
      .args = "*.ssh/authorized_keys*|/root/.ssh/*",
      REPORT("grants SSH access by adding a key", "Leave keys to their owner.") },
    { "shell.starts-later", SH, HIGH, E, MATCH_ACT, .name = ">|tee|cp|mv|install",
      .args = "/etc/cron*|/etc/systemd/system/*|/etc/rc.local|/etc/profile*|/etc/init.d/*|/var/"
              "spool/cron/*|/etc/ld.so.preload|*.config/autostart/*",
      REPORT("installs itself to run again later", "Programs should not persist after they end.") },
    { "shell.starts-with-shell", SH, MED, E, MATCH_ACT, .name = ">|tee",
      .args = "*.bashrc|*.profile|*.zshrc|*.bash_profile",
      REPORT("installs itself to run with every shell",
             "Programs should not persist after they end.") },
    { "shell.cron-added", SH, HIGH, E, MATCH_ACT, .name = "crontab", .args = "-|-e|*",
      REPORT("changes a crontab", "Programs should not persist after they end.") },
    { "shell.tunnel", SH, HIGH, E, MATCH_ACT, .name = "ssh|autossh|ngrok|cloudflared|frpc|chisel",
      .args = "-R|-*R|tcp|tunnel|client",
      REPORT("opens a tunnel that lets other machines in", LOOK_WHO) },
    { "shell.download", SH, SCAN_INFO, E, MATCH_ACT, .name = "curl|wget",
      REPORT("uses the network", LOOK_WHO) },

    /* --- Shell: hiding --- */
    { "shell.decoded-run", SH, CRIT, O, MATCH_INTO,
      .name = "base64|base32|openssl|xxd|uudecode|gunzip|zcat|bunzip2|xz|rev|tr|printf|hexdump|od|"
              "gpg|bzcat|xzcat|awk|basenc",
      .into = "sh|bash|zsh|ksh|dash|ash|eval|source|.|(run)|python|python3*|perl|ruby|node",
      RUNS_DECODED },
    { "shell.ifs", SH, HIGH, O, MATCH_CODE, SPECIAL_IFS,
      REPORT("uses $IFS in place of blanks", PLAIN) },
    { "shell.pieces", SH, HIGH, O, MATCH_CODE, SPECIAL_PIECES,
      REPORT("builds a command name from pieces of variables", PLAIN) },
    { "code.depth", IN_ANY, HIGH, O, MATCH_CODE, SPECIAL_DEPTH,
      REPORT("is nested too deeply to be read", PLAIN) },
    { "text.long-line", IN_ANY, SCAN_LOW, O, MATCH_CODE, SPECIAL_LONG_LINE,
      REPORT("has a line of more than 4096 bytes", PLAIN) },
    { "text.binary", IN_ANY, MED, O, MATCH_CODE, SPECIAL_BINARY,
      REPORT("is a binary file and cannot be scanned", "Ask for its source.") },
    { "text.nul", SH | PY | JS | IN_C | 1 << SCAN_UNKNOWN, MED, O, MATCH_CODE, SPECIAL_NUL,
      REPORT("contains a NUL byte, after which programs may read differently", PLAIN) },
    { "text.bidi", IN_ANY, HIGH, O, MATCH_CODE, SPECIAL_BIDI,
      REPORT("contains bidirectional control characters, which show code in another order than it "
             "runs",
             PLAIN) },

    /* --- Shell: exhausting --- */
    { "shell.fork-bomb", SH, CRIT, R, MATCH_CODE, SPECIAL_FORK_BOMB,
      REPORT("a function that calls itself twice in a pipeline: a fork bomb", BOUND) },
    { "shell.background-loop", SH, HIGH, R, MATCH_LOOP, .name = "&",
      REPORT("starts processes in an endless loop", BOUND) },
    { "shell.fill-loop", SH, HIGH, R, MATCH_LOOP,
      .name = ">|dd|fallocate|mktemp|mkdir|touch|cp|cat",
      REPORT("writes in an endless loop", BOUND) },
    { "shell.zeros", SH, HIGH, R, MATCH_ACT,
      .name = "cat|cp|tail|sort|tac|gzip|tee|md5sum|sha256sum|sha512sum|base64|xz|grep",
      .args = "/dev/zero|/dev/urandom|/dev/random", REPORT("reads an endless file", BOUND) },
    { "shell.yes-file", SH, HIGH, R, MATCH_INTO, .name = "yes",
      .into = ">|tee|sort|tail|tr|xargs|awk", REPORT("writes in an endless loop", BOUND) },
    { "shell.huge-file", SH, HIGH, R, MATCH_ACT, .name = "fallocate|truncate|dd|head",
      .args = "1*T|2*T|3*T|4*T|5*T|6*T|7*T|8*T|9*T|*000G",
      REPORT("creates a file of a terabyte or more", BOUND) },
    { "shell.dd-endless", SH, HIGH, R, MATCH_ACT, .name = "dd-endless",
      REPORT("fills the disk until it is full", BOUND) },
    { "shell.stress", SH, HIGH, R, MATCH_ACT,
      .name = "stress|stress-ng|xmrig|minerd|cpuminer*|xmr-stak*|ethminer|cgminer|nbminer|t-rex",
      REPORT("uses up processors or memory on purpose", BOUND) },
    { "shell.mining", SH, CRIT, R, MATCH_ACT, .name = "*",
      .args = "*stratum+tcp://*|*stratum+ssl://*|*pool.minexmr*|*xmrig*|*cryptonight*", MINES },
    { "shell.limits", SH, MED, R, MATCH_ACT, .name = "ulimit", .args = "unlimited",
      REPORT("removes resource limits", BOUND) },

    /* --- Python --- */
    { "python.rmtree", PY, CRIT, D, MATCH_ACT,
      .name = "shutil.rmtree|rmtree|os.removedirs|*.rmtree", .args = ROOTS, DELETES_TREE },
    { "python.rmtree-home", PY, CRIT, D, MATCH_INTO,
      .name = "os.path.expanduser|Path.home|pathlib.Path.home|os.getenv|os.environ.get",
      .args = "~|~/|HOME|?", .into = "shutil.rmtree|rmtree",
      REPORT("deletes a home directory", BE_SURE) },
    { "python.rmtree-joined", PY, CRIT, D, MATCH_INTO, .name = "os.path.join|pathlib.Path|Path",
      .args = "/", .into = "shutil.rmtree|rmtree|os.remove|os.unlink|*.unlink",
      REPORT("recursively deletes from the root directory", BE_SURE) },
    { "python.remove-system", PY, HIGH, D, MATCH_ACT,
      .name = "os.remove|os.unlink|os.truncate|os.rename|shutil.move|os.rmdir",
      .args = "/etc/*|/boot/*|/usr/*|/bin/*|/var/log/*|/lib/*", DELETES_SYSTEM },
    { "python.write-disk", PY, CRIT, D, MATCH_ACT, .name = "open|os.open|io.open", .args = DISKS,
      .also = "w*|r+*|a*|?*", REPORT("opens a disk's device", NO_DISK) },
    { "python.write-system", PY, HIGH, D, MATCH_ACT, .name = "open|io.open|codecs.open",
      .args = "/etc/passwd|/etc/shadow|/etc/sudoers*|/etc/ld.so.preload|/boot/*|/etc/cron*|/proc/"
              "sysrq-trigger|/etc/systemd/system/*|*authorized_keys|/etc/profile*|*.bashrc",
      .also = "w|wb|a|ab|w+|a+|r+|r+b", WRITES_SYSTEM },
    { "python.kill-all", PY, HIGH, D, MATCH_ACT, .name = "os.kill|os.killpg", .args = "-1",
      REPORT("kills all processes that it may signal",
             "Kill only the program's own processes, by PID.") },
    { "python.walk-remove", PY, HIGH, D, MATCH_BOTH,
      .name = "os.walk|glob.glob|glob.iglob|os.listdir|os.scandir", .args = ROOTS,
      .into = "os.remove|os.unlink|shutil.rmtree|*.unlink", DELETES_FOUND },
    { "python.encrypts-files", PY, HIGH, D, MATCH_BOTH,
      .name = "os.walk|os.scandir|glob.glob|*.rglob",
      .into = "Fernet|cryptography.fernet.Fernet|AES.new|Crypto.Cipher.AES.new|Cryptodome.Cipher."
              "AES.new",
      REPORT("encrypts files recursively, like ransomware",
             "Check whose files these are, and who holds the key.") },
    { "python.secret-sent", PY, CRIT, E, MATCH_INTO,
      .name =
          "open|io.open|os.path.expanduser|pathlib.Path|Path|os.path.join|*.joinpath|*.read_text|"
          "glob.glob|os.open|shutil.make_archive|tarfile.open|sqlite3.connect|shutil.copy*",
      .args = SECRETS, .into = PY_SENDERS, SENDS_SECRETS },
    { "python.secret-and-net", PY, HIGH, E, MATCH_BOTH,
      .name =
          "open|io.open|os.path.expanduser|pathlib.Path|Path|os.path.join|*.joinpath|*.read_text|"
          "glob.glob|os.open|shutil.make_archive|tarfile.open|sqlite3.connect|os.listdir|os.walk",
      .args = SECRETS, .into = PY_SENDERS "|socket.socket|socket.create_connection|*.connect",
      READS_AND_SENDS },
    { "python.secret-read", PY, MED, E, MATCH_ACT,
      .name = "open|io.open|os.path.expanduser|pathlib.Path|Path|*.read_text|os.open",
      .args = SECRETS, READS_SECRETS },
    { "python.environment-sent", PY, CRIT, E, MATCH_INTO,
      .name = "dict|json.dumps|str|os.environ.copy|os.environ.items|repr|urllib.parse.urlencode|"
              "list|pprint.pformat",
      .args = "(environ)", .into = PY_SENDERS, SENDS_ENVIRONMENT },
    { "python.environment-copied", PY, CRIT, E, MATCH_INTO,
      .name = "os.environ.copy|os.environ.items|os.environ.values", .into = PY_SENDERS,
      SENDS_ENVIRONMENT },
    { "python.environment-direct", PY, CRIT, E, MATCH_ACT, .name = PY_SENDERS, .args = "(environ)",
      SENDS_ENVIRONMENT },
    { "python.metadata", PY, HIGH, E, MATCH_ACT,
      .name = PY_SENDERS "|*.connect|*.get|*.request|*.Request", .args = METADATA, ASKS_METADATA },
    { "python.download-run", PY, CRIT, E, MATCH_INTO,
      .name = "requests.*|urllib.request.*|urllib2.urlopen|urlopen|httpx.*|*.recv|http.client.*",
      .into = PY_RUN, RUNS_DOWNLOAD },
    { "python.reverse-shell", PY, CRIT, E, MATCH_BOTH, .name = "os.dup2",
      .into = "*.connect|socket.create_connection|socket.socket", REVERSE_SHELL },
    { "python.pty-shell", PY, CRIT, E, MATCH_BOTH, .name = "pty.spawn",
      .into = "*.connect|socket.create_connection", REVERSE_SHELL },
    { "python.keylogger", PY, HIGH, E, MATCH_ACT,
      .name = "pynput.keyboard.Listener|keyboard.on_press|keyboard.Listener|pynput.*Listener|"
              "keyboard.hook|ImageGrab.grab|PIL.ImageGrab.grab|pyautogui.screenshot|mss.mss",
      REPORT("records keyboard or screen", "Check why this is needed.") },
    { "python.decoded-run", PY, CRIT, O, MATCH_INTO,
      .name = "base64.*|zlib.decompress|codecs.decode|bytes.fromhex|binascii.*|marshal.loads|"
              "bytearray.fromhex|gzip.decompress|lzma.decompress|bz2.decompress|b64decode|chr|*."
              "fromhex|bytes|*.decrypt",
      .into = "exec|eval|compile|os.system|os.popen|builtins.exec|builtins.eval|types.FunctionType|"
              "subprocess.*|marshal.loads|getattr|__import__|builtins.compile",
      RUNS_DECODED },
    { "python.hidden-call", PY, HIGH, O, MATCH_ACT, .name = "getattr",
      .args = "system|popen|exec|eval|__import__|spawn|b64decode|rmtree|remove|unlink",
      REPORT("hides the function that it calls", PLAIN) },
    { "python.builtins-index", PY, HIGH, O, MATCH_ACT,
      .name = "__builtins__.exec|__builtins__.eval|globals().__builtins__*|vars().*|__builtins__.__"
              "import__|globals().exec|globals().eval|builtins.__dict__*|__builtins__.__dict__*",
      REPORT("hides the function that it calls", PLAIN) },
    { "python.eval", PY, MED, O, MATCH_ACT, .name = "eval|exec", .args = "?",
      REPORT("runs code that is built at run time",
             "Check which code can result; use ast.literal_eval for data.") },
    { "python.pickle", PY, MED, O, MATCH_ACT,
      .name = "pickle.loads|pickle.load|cPickle.loads|marshal.loads|dill.loads",
      REPORT("loads data in a format that can run code", "Use JSON for untrusted data.") },
    { "python.fork-loop", PY, CRIT, R, MATCH_LOOP,
      .name = "os.fork|fork|multiprocessing.Process|*.Process|threading.Thread|subprocess.Popen|os."
              "system|subprocess.run",
      ENDLESS_PROCESSES },
    { "python.grow-loop", PY, HIGH, R, MATCH_LOOP,
      .name = "*.append|*.extend|bytearray|*.write|*.update|*.add|*.writelines|os.mkdir|os."
              "makedirs|open",
      REPORT("allocates memory or disk space in an endless loop", BOUND) },
    { "python.sockets-loop", PY, HIGH, R, MATCH_LOOP,
      .name = "*.sendto|*.sendall|*.send|socket.socket|requests.get|requests.post|*.connect",
      FLOOD },
    { "python.mining", PY, CRIT, R, MATCH_ACT, .name = "*",
      .args = "*stratum+tcp://*|*stratum+ssl://*", MINES },

    /* --- JavaScript --- */
    { "javascript.remove-tree", JS, CRIT, D, MATCH_ACT,
      .name = "fs.rm|fs.rmSync|fs.rmdir|fs.rmdirSync|rimraf|rimraf.sync|fs.promises.rm|fs/"
              "promises.rm|fs-extra.remove*|fs.removeSync|del|fs.remove",
      .args = ROOTS, DELETES_TREE },
    { "javascript.remove-home", JS, CRIT, D, MATCH_INTO, .name = "os.homedir|os.userInfo",
      .into =
          "fs.rm|fs.rmSync|fs.rmdir|fs.rmdirSync|rimraf|rimraf.sync|fs.promises.rm|fs/promises.rm",
      REPORT("deletes a home directory", BE_SURE) },
    { "javascript.remove-system", JS, HIGH, D, MATCH_ACT,
      .name = "fs.unlink|fs.unlinkSync|fs.truncate*|fs.promises.unlink|fs/promises.unlink",
      .args = "/etc/*|/boot/*|/usr/*|/bin/*|/var/log/*", DELETES_SYSTEM },
    { "javascript.write-system", JS, HIGH, D, MATCH_ACT,
      .name = "fs.writeFile*|fs.appendFile*|fs.createWriteStream|fs.promises.writeFile|fs/"
              "promises.writeFile|fs.openSync|fs.open",
      .args = "/etc/passwd|/etc/shadow|/etc/sudoers*|/boot/*|/etc/cron*|/dev/sd*|/dev/nvme*|/dev/"
              "vd*|/etc/ld.so.preload|*authorized_keys|/etc/systemd/*|/proc/sysrq-trigger|*.bashrc",
      WRITES_SYSTEM },
    { "javascript.secret-sent", JS, CRIT, E, MATCH_INTO,
      .name = "fs.readFile*|fs.createReadStream|path.join|path.resolve|fs.promises.readFile|fs/"
              "promises.readFile|fs.readdir*|readFileSync|readFile",
      .args = SECRETS, .into = JS_SENDERS, SENDS_SECRETS },
    { "javascript.secret-and-net", JS, HIGH, E, MATCH_BOTH,
      .name = "fs.readFile*|fs.createReadStream|path.join|path.resolve|fs.promises.readFile|fs/"
              "promises.readFile|fs.readdir*|readFileSync|readFile|join",
      .args = SECRETS, .into = JS_SENDERS "|*.connect|net.Socket", READS_AND_SENDS },
    { "javascript.secret-read", JS, MED, E, MATCH_ACT,
      .name = "fs.readFile*|fs.createReadStream|path.join", .args = SECRETS, READS_SECRETS },
    { "javascript.environment-sent", JS, CRIT, E, MATCH_ACT,
      .name = "JSON.stringify|" JS_SENDERS "|Object.entries|querystring.stringify|Buffer.from",
      .args = "(environ)",
      REPORT("passes on all environment variables, including secrets", NO_SECRETS) },
    { "javascript.metadata", JS, HIGH, E, MATCH_ACT,
      .name = JS_SENDERS "|*.get|*.request|net.createConnection", .args = METADATA, ASKS_METADATA },
    { "javascript.download-run", JS, CRIT, E, MATCH_INTO,
      .name = "fetch|axios|axios.*|got|got.*|http.get|https.get|request|*.text|node-fetch",
      .into = "eval|Function|vm.*|child_process.*|execSync|*._compile", RUNS_DOWNLOAD },
    { "javascript.download-and-run", JS, HIGH, E, MATCH_BOTH,
      .name = "http.get|https.get|fetch|axios.get|request",
      .into = "eval|Function|vm.runInThisContext|vm.runInNewContext|vm.runInContext",
      REPORT("downloads data and runs code from text", LOOK_UP) },
    { "javascript.shell-on-socket", JS, CRIT, E, MATCH_BOTH,
      .name = "child_process.spawn|child_process.exec*|spawn",
      .args = "/bin/sh|/bin/bash|sh|bash|cmd.exe|powershell*",
      .into = "net.connect|net.Socket|net.createConnection|*.connect|tls.connect", REVERSE_SHELL },
    { "javascript.cookies", JS, HIGH, E, MATCH_ACT,
      .name = JS_SENDERS "|encodeURIComponent|btoa|Image", .args = "(cookie)",
      REPORT("reads the page's cookies", NO_SECRETS) },
    { "javascript.decoded-run", JS, CRIT, O, MATCH_INTO,
      .name = "atob|Buffer.from|unescape|decodeURIComponent|String.fromCharCode|String."
              "fromCodePoint|*.fromCharCode|zlib.*|*.decrypt|crypto.createDecipher*|Buffer",
      .into = JS_RUN, RUNS_DECODED },
    { "javascript.hidden-require", JS, HIGH, O, MATCH_INTO,
      .name = "Buffer.from|atob|String.fromCharCode|unescape", .into = "require|import",
      REPORT("hides the module that it loads", PLAIN) },
    { "javascript.constructor", JS, HIGH, O, MATCH_ACT,
      .name = "*.constructor.constructor|*.constructor().constructor|*.constructor().*|globalThis."
              "Function|*.constructor",
      .args = "*", REPORT("builds a function from text indirectly", PLAIN) },
    { "javascript.hidden-global", JS, HIGH, O, MATCH_ACT,
      .name = "global.require|globalThis.require|process.mainModule.require|global.eval|"
              "globalThis.eval|window.eval|process.binding|process._linkedBinding|process.dlopen",
      REPORT("uses a module or eval indirectly", PLAIN) },
    { "javascript.eval", JS, MED, O, MATCH_ACT, .name = "eval|Function", .args = "?",
      REPORT("runs code that is built at run time",
             "Check which code can result; use JSON.parse for data.") },
    { "javascript.fork-loop", JS, CRIT, R, MATCH_LOOP,
      .name = "child_process.*|fork|spawn|exec|cluster.fork|Worker|worker_threads.Worker|execSync",
      ENDLESS_PROCESSES },
    { "javascript.grow-loop", JS, HIGH, R, MATCH_LOOP,
      .name = "*.push|Buffer.alloc*|fs.write*|fs.appendFile*|*.concat|Array|Array().*|*.add|*.set|"
              "fs.mkdirSync|crypto.randomBytes|ArrayBuffer|Uint8Array",
      REPORT("allocates memory or disk space in an endless loop", BOUND) },
    { "javascript.flood", JS, HIGH, R, MATCH_LOOP,
      .name = "fetch|http.get|http.request|https.get|https.request|net.connect|*.send|axios.*",
      FLOOD },
    { "javascript.self-copies", JS, HIGH, R, MATCH_ACT,
      .name = "child_process.fork|child_process.spawn|fork|spawn|cluster.fork", .args = "(self)",
      REPORT("starts itself again", BOUND) },
    { "javascript.mining", JS, CRIT, R, MATCH_ACT, .name = "*",
      .args = "*stratum+tcp://*|*coinhive*|*stratum+ssl://*|*cryptonight*", MINES },

    /* --- C --- */
    { "c.remove-system", IN_C, HIGH, D, MATCH_ACT,
      .name = "unlink|remove|truncate|rmdir|unlinkat|rename",
      .args = "/etc/*|/boot/*|/usr/*|/bin/*|/var/log/*|/lib/*", DELETES_SYSTEM },
    { "c.write-disk", IN_C, CRIT, D, MATCH_ACT, .name = "open|fopen|open64|openat", .args = DISKS,
      REPORT("opens a disk's device", NO_DISK) },
    { "c.write-system", IN_C, HIGH, D, MATCH_ACT, .name = "fopen|freopen",
      .args = "/etc/passwd|/etc/shadow|/etc/sudoers*|/etc/ld.so.preload|/boot/*|/etc/cron*|/proc/"
              "sysrq-trigger|/etc/systemd/*|*authorized_keys|/etc/hosts",
      .also = "w*|a*|r+*", WRITES_SYSTEM },
    { "c.open-system", IN_C, HIGH, D, MATCH_ACT, .name = "open|creat",
      .args = "/proc/sysrq-trigger|/etc/ld.so.preload|/dev/mem|/dev/kmem|/etc/"
              "sudoers*|*authorized_keys",
      REPORT("opens a critical system file", "Leave the system's files to its administrator.") },
    { "c.reboot", IN_C, CRIT, D, MATCH_ACT,
      .name = "reboot|init_module|finit_module|delete_module|kexec_load",
      REPORT("restarts the machine or changes its kernel",
             "Programs should not restart or stop the machine.") },
    { "c.walk-remove", IN_C, HIGH, D, MATCH_BOTH, .name = "nftw|ftw|fts_open|opendir",
      .args = ROOTS, .into = "unlink|remove|rmdir|unlinkat", DELETES_FOUND },
    { "c.nftw-root", IN_C, HIGH, D, MATCH_ACT, .name = "nftw|ftw", .args = ROOTS,
      REPORT("walks through the whole system", BE_SURE) },
    { "c.walk-home", IN_C, HIGH, D, MATCH_INTO, .name = "getenv|getpwuid|secure_getenv",
      .args = "HOME", .into = "nftw|ftw|fts_open",
      REPORT("walks through a home directory", BE_SURE) },
    { "c.secret-sent", IN_C, CRIT, E, MATCH_INTO,
      .name = "fopen|open|openat|snprintf|sprintf|strcat|opendir", .args = SECRETS,
      .into = "send|sendto|sendmsg|SSL_write|curl_easy_setopt|curl_easy_perform|dprintf",
      SENDS_SECRETS },
    { "c.secret-and-net", IN_C, HIGH, E, MATCH_BOTH,
      .name = "fopen|open|openat|snprintf|sprintf|strcat|opendir", .args = SECRETS,
      .into = "connect|sendto|curl_easy_perform|getaddrinfo|SSL_connect|gethostbyname",
      READS_AND_SENDS },
    { "c.secret-read", IN_C, MED, E, MATCH_ACT, .name = "fopen|open|openat", .args = SECRETS,
      READS_SECRETS },
    { "c.metadata", IN_C, HIGH, E, MATCH_ACT,
      .name = "inet_addr|inet_pton|inet_aton|getaddrinfo|curl_easy_setopt|gethostbyname",
      .args = METADATA, ASKS_METADATA },
    { "c.reverse-shell", IN_C, CRIT, E, MATCH_BOTH,
      .name = "execl|execlp|execve|execv|execvp|execle|system",
      .args = "/bin/sh|/bin/bash|sh|bash|/bin/sh -i|/bin/bash -i", .into = "dup2|dup3",
      REPORT("redirects input and output of a shell", LOOK_WHO) },
    { "c.socket-as-input", IN_C, HIGH, E, MATCH_BOTH, .name = "dup2|dup3",
      .into = "connect|accept|accept4",
      REPORT("connects input or output of a program to a socket", LOOK_WHO) },
    { "c.made-command", IN_C, HIGH, E, MATCH_BOTH,
      .name = "snprintf|sprintf|asprintf|strcpy|strcat",
      .args = "*curl *|*wget *|*rm -rf *|*base64 -d*|*/dev/tcp/*",
      .into = "system|popen|execl|execlp|execv|execvp|execve",
      REPORT("builds and runs a command that downloads, decodes or deletes", PLAIN) },
    { "c.preload", IN_C, HIGH, E, MATCH_ACT, .name = "setenv|putenv",
      .args = "LD_PRELOAD|LD_PRELOAD=*|LD_AUDIT*",
      REPORT("loads a library into other programs", "Check what that library does.") },
    { "c.trace", IN_C, HIGH, E, MATCH_ACT, .name = "ptrace|process_vm_readv|process_vm_writev",
      .args = "?", REPORT("reads or changes other processes", "Check which processes, and why.") },
    { "c.downloaded-run", IN_C, CRIT, E, MATCH_INTO, .name = "recv|SSL_read|recvfrom",
      .into = "system|popen|execl|execve|execv|execlp|execvp",
      REPORT("runs commands received from another machine", LOOK_WHO) },
    { "c.memory-run", IN_C, HIGH, O, MATCH_BOTH, .name = "mmap|mprotect", .args = "(exec)",
      .into = "memcpy|memmove|recv|read|strcpy|bcopy",
      REPORT("copies bytes to memory and executes them", PLAIN) },
    { "c.memfd-run", IN_C, HIGH, O, MATCH_BOTH, .name = "memfd_create|syscall", .args = "*",
      .into = "fexecve|execveat", REPORT("runs a program from memory, without a file", PLAIN) },
    { "c.hide", IN_C, HIGH, O, MATCH_ACT, .name = "prctl",
      .args = "[kworker*|kworker*|*kthread*|[*]",
      REPORT("disguises itself as another process", PLAIN) },
    { "c.fork-loop", IN_C, CRIT, R, MATCH_LOOP,
      .name = "fork|vfork|pthread_create|clone|clone3|system|popen", ENDLESS_PROCESSES },
    { "c.grow-loop", IN_C, HIGH, R, MATCH_LOOP,
      .name = "malloc|calloc|realloc|mmap|sbrk|strdup|open|socket|creat|mkdir|pipe|fopen|write|"
              "fwrite|fputs|fputc|putc",
      REPORT("allocates memory, descriptors or disk space in an endless loop", BOUND) },
    { "c.flood", IN_C, HIGH, R, MATCH_LOOP, .name = "sendto|send|connect|sendmsg", FLOOD },
    { "c.raw-flood", IN_C, MED, R, MATCH_ACT, .name = "socket", .args = "(raw)",
      REPORT("creates raw network packets", LOOK_WHO) },
    { "c.mining", IN_C, CRIT, R, MATCH_ACT, .name = "*", .args = "*stratum+tcp://*|*cryptonight*",
      MINES },
    { "c.temporary", IN_C, SCAN_LOW, O, MATCH_ACT, .name = "gets|tmpnam|mktemp",
      REPORT("uses a function that is always unsafe", "Use fgets, mkstemp.") },
};

const size_t scan_rule_count = COUNT_OF(scan_rules);

_Static_assert(COUNT_OF(scan_rules) <= SCAN_RULES_MAX, "rules");
