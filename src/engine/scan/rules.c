#include "scan/rules.h"

#include "base/own.h"

/* Places whose loss is the loss of the machine, or of a person's work. */
#define ROOTS                                                                                      \
    "/|/%|/.|/./|//|~|~/|~/%|$HOME|$HOME/|$HOME/%|/home|/home/|/home/%|/home/^|/etc|/etc/|/etc/"   \
    "%|/usr|/usr/|/usr/%|"                                                                         \
    "/var|/var/|/var/%|/var/lib|/var/lib/%|/boot|/boot/|/boot/%|/bin|/bin/%|/sbin|/sbin/%|/lib|/"  \
    "lib/%|/lib64|/root|"                                                                          \
    "/root/|/root/%|/opt|/opt/%|/srv|/srv/%|/dev|/dev/%|/sys|/proc|/mnt|/mnt/%|/usr/lib|/usr/bin"
#define DISKS                                                                                      \
    "/dev/sd*|/dev/hd*|/dev/vd*|/dev/xvd*|/dev/nvme*|/dev/mmcblk*|/dev/mapper/*|/dev/md*|/dev/"    \
    "disk*|/dev/dm-*"
#define DD_DISKS                                                                                   \
    "of=/dev/sd*|of=/dev/hd*|of=/dev/vd*|of=/dev/xvd*|of=/dev/nvme*|of=/dev/mmcblk*|of=/dev/"      \
    "mapper/*|of=/dev/md*|"                                                                        \
    "of=/dev/disk*|of=/dev/mem|of=/dev/kmem"
#define SECRETS                                                                                    \
    "*.ssh/*|*.ssh|*.aws/credentials*|*.aws|*.netrc|*/etc/shadow*|*.gnupg*|*.kube/"                \
    "config*|*.docker/config.json*|"                                                               \
    "*.git-credentials*|*.bash_history*|*.zsh_history*|*wallet.dat*|*Login "                       \
    "Data*|*.config/gcloud*|/proc/*/environ|"                                                      \
    "*/run/secrets*|*cookies.sqlite*|*.mozilla/*|*id_rsa|*id_ed25519|*.npmrc|*.pypirc|*keystore*/" \
    "UTC*|*.password-store*|"                                                                      \
    "*.azure/*|*.vault-token*|*Local State|*.config/gh/hosts.yml|*.config/google-chrome*|*"        \
    ".config/chromium*|*BraveSoftware*|*/Cookies|*.config/solana*|*.ethereum/*|*.bitcoin/"         \
    "*|*.electrum/*|*Exodus/*"
#define METADATA                                                                                   \
    "*169.254.169.254*|*metadata.google.internal*|*100.100.100.200*|*fd00:ec2::254*|*169.254.170." \
    "2*"
#define SENDERS                                                                                    \
    "curl|wget|nc|ncat|netcat|scp|rsync|ftp|tftp|sftp|telnet|socat|mail|sendmail|mutt|http|https|" \
    "ssh|rclone|aws|gsutil"
#define DOWNLOADERS "curl|wget|fetch|aria2c|http|https|lwp-request|lynx|GET"
#define SHELLS                                                                                     \
    "sh|bash|zsh|ksh|dash|ash|eval|source|.|(run)|python|python2*|python3*|perl|ruby|node|php"
#define PY_SENDERS                                                                                 \
    "requests.*|urllib.request.*|urllib2.*|http.client.*|httpx.*|aiohttp.*|*.sendall|*.send|*."    \
    "sendto|*.sendmail|"                                                                           \
    "*.send_message|ftplib.*|*.storbinary|smtplib.*|*.put_object|*.upload_file|urlopen|*.post|*."  \
    "urlopen|paramiko.*"
#define JS_SENDERS                                                                                 \
    "fetch|axios|axios.*|http.request|https.request|http.get|https.get|*.write|*.end|net.connect|" \
    "got|got.*|*.send|"                                                                            \
    "request|request.*|needle|superagent.*|navigator.sendBeacon|*.sendMail|dns.resolve*|dns."      \
    "lookup|node-fetch|undici.*"
#define C_SENDERS                                                                                  \
    "send|sendto|sendmsg|curl_easy_perform|curl_easy_setopt|SSL_write|write|connect|getaddrinfo|"  \
    "gethostbyname|dprintf"
#define PY_RUN                                                                                     \
    "exec|eval|compile|os.system|os.popen|subprocess.*|builtins.exec|builtins.eval|Popen|types."   \
    "FunctionType|marshal.loads|pickle.loads"
#define JS_RUN                                                                                     \
    "eval|Function|vm.*|child_process.*|execSync|setTimeout|setInterval|globalThis.eval|window."   \
    "eval|exec|spawn|Module._compile|*._compile|*.constructor"

#define BE_SURE "Delete only what this program made itself, by its full name."
#define NO_DISK "A program has no business on a disk's device; write to a file."
#define LOOK_UP "Keep what was downloaded in a file, read it, and check its hash before it runs."
#define NO_SECRETS                                                                                 \
    "Credentials belong to their owner; give the program only what it needs, by name."
#define PLAIN    "Write plainly what is to run, so that it can be read."
#define BOUND    "Set a bound: a count, a size, a time."
#define LOOK_WHO "See where this connects to, and why."

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

/* A rule: id, languages, severity, class, look; then what it compares; then what it says. */
#define SAY(m, a) .message = (m), .advice = (a)

const struct scan_rule scan_rules[] = {
    /* --- Shell: destroying --- */
    { "shell.rm-root", SH, CRIT, D, LOOK_ACT, .name = "rm", .flags = "r", .args = ROOTS,
      SAY("removes a whole tree of the system or of a home directory", BE_SURE) },
    { "shell.rm-no-preserve", SH, CRIT, D, LOOK_ACT, .name = "rm", .args = "--no-preserve-root",
      SAY("removes even the root directory", BE_SURE) },
    { "shell.rm-unset", SH, MED, D, LOOK_ACT, .name = "rm", .flags = "r", .args = "$*/|$*/%",
      SAY("removes from the root directory if the variable is empty",
          "Write ${NAME:?} so that an empty one stops it.") },
    { "shell.find-delete", SH, CRIT, D, LOOK_ACT, .name = "find", .args = ROOTS,
      .also = "-delete|rm|shred|unlink",
      SAY("removes what it finds in the system or a home directory", BE_SURE) },
    { "shell.mkfs", SH, CRIT, D, LOOK_ACT,
      .name = "mkfs*|mke2fs|mkswap|wipefs|blkdiscard|sgdisk|parted|fdisk|sfdisk|badblocks|hdparm",
      .args = "/dev/*",
      SAY("makes a new file system or partition table over what a disk holds", NO_DISK) },
    { "shell.dd-disk", SH, CRIT, D, LOOK_ACT, .name = "dd|dcfldd", .args = DD_DISKS,
      SAY("writes over a disk", NO_DISK) },
    { "shell.write-disk", SH, CRIT, D, LOOK_ACT, .name = ">|tee|cp", .args = DISKS,
      SAY("writes over a disk", NO_DISK) },
    { "shell.shred", SH, HIGH, D, LOOK_ACT, .name = "shred|srm|wipe|scrub",
      .args = "/dev/*|/*|~*|$HOME*",
      SAY("overwrites files so that nobody can bring them back", BE_SURE) },
    { "shell.volumes", SH, CRIT, D, LOOK_ACT,
      .name = "lvremove|vgremove|pvremove|zpool|zfs|cryptsetup|mdadm",
      .args = "-f|-ff|-y|destroy|erase|luksErase|--zero-superblock|--stop|/dev/*|*/*",
      SAY("destroys volumes or their keys", NO_DISK) },
    { "shell.mode-root", SH, HIGH, D, LOOK_ACT, .name = "chmod|chown|chgrp|setfacl", .flags = "R",
      .args = ROOTS,
      SAY("changes the rights or owners of the whole system",
          "Change only the files that need it.") },
    { "shell.move-away", SH, CRIT, D, LOOK_ACT, .name = "mv", .args = "/dev/null",
      SAY("moves files to where they are lost", BE_SURE) },
    { "shell.write-system", SH, HIGH, D, LOOK_ACT, .name = ">|tee|truncate",
      .args = "/etc/passwd|/etc/shadow|/etc/group|/boot/*|/etc/fstab|/etc/sudoers*|/etc/pam.d/*|/"
              "etc/ld.so.preload|/etc/ssh/*|/etc/hosts.allow|/usr/bin/*|/bin/*",
      SAY("writes over a file that the system lives by",
          "Leave the system's files to its administrator.") },
    { "shell.kill-all", SH, HIGH, D, LOOK_ACT, .name = "kill", .args = "-1",
      .also = "-9|-KILL|-SIGKILL|-s",
      SAY("kills everything that it may kill", "Kill what was started, by its number.") },
    { "shell.sysrq", SH, CRIT, D, LOOK_ACT, .name = ">|tee",
      .args = "/proc/sysrq-trigger|/proc/sys/kernel/sysrq|/sys/power/state",
      SAY("makes the kernel crash or restart", "A program does not restart a machine.") },
    { "shell.power", SH, HIGH, D, LOOK_ACT, .name = "shutdown|reboot|halt|poweroff|telinit",
      SAY("turns the machine off", "A program does not restart a machine.") },
    { "shell.setuid", SH, HIGH, D, LOOK_ACT, .name = "chmod|install",
      .args = "u+s|+s|ug+s|u+xs|4755|04755|4555|04555|4711|04711|4777|04777|6755|06755|-m4755|"
              "--mode=4755",
      SAY("makes a program run with the rights of its owner", "Leave that to the administrator.") },
    { "shell.host-mounted", SH, CRIT, E, LOOK_ACT, .name = "docker|podman|nerdctl",
      .args = "/:/*|-v/:/*|--volume=/:/*|--mount=*source=/,*|*src=/,*|*source=/,*",
      SAY("hands the whole machine to a container",
          "Mount the one directory that the container needs.") },
    { "shell.protection", SH, MED, D, LOOK_ACT,
      .name = "iptables|nft|ufw|setenforce|systemctl|auditctl|swapoff|service",
      .args = "-F|flush|disable|stop|0|-e0|-a|mask",
      SAY("takes protection away", "Leave it to the administrator.") },
    { "shell.history", SH, MED, D, LOOK_ACT, .name = "history|unset|journalctl",
      .args = "-c|HISTFILE|--vacuum*",
      SAY("wipes out the record of what was done", "Leave records as they are.") },
    { "shell.logs", SH, HIGH, D, LOOK_ACT, .name = "rm|shred|truncate|>",
      .args = "/var/log|/var/log/*|*/wtmp|*/btmp|*/lastlog",
      SAY("wipes out the system's logs", "Leave records as they are.") },
    { "shell.users", SH, HIGH, D, LOOK_ACT, .name = "userdel|deluser|passwd|chpasswd|usermod",
      .args = "root|-d|-aG|--remove-home|-r",
      SAY("removes or changes users", "Leave users to the administrator.") },
    { "shell.git-lost", SH, MED, D, LOOK_ACT, .name = "git", .args = "push|clean",
      .also = "--force|-f|-fdx|-ffdx",
      SAY("throws away what others have, or what is not committed", "Ask before.") },
    { "shell.cron-removed", SH, MED, D, LOOK_ACT, .name = "crontab", .args = "-r",
      SAY("removes a person's timetable", "Ask before.") },
    { "shell.containers", SH, MED, D, LOOK_ACT, .name = "docker|podman|kubectl",
      .args = "prune|delete", .also = "-a*|--all|-f|-af|--volumes|ns|namespace",
      SAY("removes containers, volumes or namespaces", "Name what is to be removed.") },

    /* --- Shell: giving away, taking in --- */
    { "shell.download-run", SH, CRIT, E, LOOK_INTO, .name = DOWNLOADERS, .into = SHELLS,
      SAY("runs what it downloads without looking", LOOK_UP) },
    { "shell.secret-sent", SH, CRIT, E, LOOK_INTO,
      .name = "cat|cp|tar|base64|zip|gzip|openssl|xxd|dd|head|tail|grep|find|ls|while|curl|wget|nc|"
              "scp|rsync|strings|gpg|jq|awk|sed|<|od|rclone|7z",
      .args = SECRETS, .into = SENDERS "|dig|nslookup|host|ping|>",
      SAY("sends credentials away", NO_SECRETS) },
    { "shell.secret-form", SH, CRIT, E, LOOK_ACT, .name = "curl|wget|http|nc|scp|rsync|aws|rclone",
      .args = "*@*.ssh/*|*@*.aws/*|*@*.netrc|*@/etc/shadow|*@/etc/passwd|*=*.ssh/*|*.ssh/"
              "id_*|*.ssh/|*.aws/credentials|/etc/shadow|*@*.env|*@*.kube/*|*@*.docker/"
              "*|*.gnupg|*.gnupg/|*@*.git-credentials",
      .also = "http*|*:*|*.*/*|-F|-d|-T|--data*|--upload-file|*@*:*|s3*",
      SAY("sends credentials away", NO_SECRETS) },
    { "shell.secret-read", SH, MED, E, LOOK_ACT,
      .name = "cat|cp|tar|base64|zip|xxd|strings|head|tail|grep|<", .args = SECRETS,
      SAY("reads credentials", NO_SECRETS) },
    { "shell.environment-sent", SH, CRIT, E, LOOK_INTO, .name = "env|printenv|set|declare",
      .into = SENDERS "|dig|nslookup|host",
      SAY("sends all environment variables away, and the secrets in them", NO_SECRETS) },
    { "shell.environment-bare", SH, SCAN_INFO, E, LOOK_ACT, .name = "printenv|env",
      SAY("reads all environment variables", NO_SECRETS) },
    { "shell.metadata", SH, HIGH, E, LOOK_ACT,
      .name = "curl|wget|nc|http|fetch|lynx|GET|python*|ncat", .args = METADATA,
      SAY("asks the cloud's metadata service, which hands out the machine's credentials",
          NO_SECRETS) },
    { "shell.reverse-shell", SH, CRIT, E, LOOK_ACT, .name = "*",
      .args = "/dev/tcp/*|/dev/udp/*|*/dev/tcp/*",
      SAY("connects a shell to somebody outside", LOOK_WHO) },
    { "shell.device-tcp", SH, CRIT, E, LOOK_ACT, .name = ">", .args = "/dev/tcp/*|/dev/udp/*",
      SAY("writes to somebody outside", LOOK_WHO) },
    { "shell.netcat-exec", SH, CRIT, E, LOOK_ACT, .name = "nc|ncat|netcat|socat|nc.traditional",
      .args = "-e|-c|-*e|--exec*|--sh-exec*|exec:*|EXEC:*|*exec:*|system:*|SYSTEM:*",
      SAY("hands a shell to whoever is on the other end", LOOK_WHO) },
    { "shell.netcat-pipe", SH, CRIT, E, LOOK_INTO, .name = "nc|ncat|netcat|telnet|socat|openssl",
      .into = "sh|bash|zsh|dash|ash|/bin/sh|eval",
      SAY("runs what somebody outside says", LOOK_WHO) },
    { "shell.shell-to-netcat", SH, CRIT, E, LOOK_INTO, .name = "sh|bash|zsh|dash|ash|ksh",
      .flags = "i", .into = "nc|ncat|netcat|telnet|socat|openssl",
      SAY("sends what a shell says to somebody outside", LOOK_WHO) },
    { "shell.find-shred", SH, HIGH, D, LOOK_INTO, .name = "find|ls|locate|fd",
      .into = "shred|srm|wipe|scrub",
      SAY("overwrites all that it finds so that nobody can bring it back", BE_SURE) },
    { "shell.dns-carries", SH, HIGH, E, LOOK_ACT, .name = "dig|nslookup|host|ping|drill",
      .args = "*$()*|*$()", SAY("puts what it found into the name it asks for", LOOK_WHO) },
    { "shell.keys-planted", SH, HIGH, E, LOOK_ACT, .name = ">|tee|cp|ssh-copy-id",
      .args = "*.ssh/authorized_keys*|/root/.ssh/*",
      SAY("lets somebody in by a key", "Leave keys to their owner.") },
    { "shell.starts-later", SH, HIGH, E, LOOK_ACT, .name = ">|tee|cp|mv|install",
      .args = "/etc/cron*|/etc/systemd/system/*|/etc/rc.local|/etc/profile*|/etc/init.d/*|/var/"
              "spool/cron/*|/etc/ld.so.preload|*.config/autostart/*",
      SAY("makes itself run again later", "A program ends when it is done.") },
    { "shell.starts-with-shell", SH, MED, E, LOOK_ACT, .name = ">|tee",
      .args = "*.bashrc|*.profile|*.zshrc|*.bash_profile",
      SAY("makes itself run with every shell", "A program ends when it is done.") },
    { "shell.cron-added", SH, HIGH, E, LOOK_ACT, .name = "crontab", .args = "-|-e|*",
      SAY("changes a timetable", "A program ends when it is done.") },
    { "shell.tunnel", SH, HIGH, E, LOOK_ACT, .name = "ssh|autossh|ngrok|cloudflared|frpc|chisel",
      .args = "-R|-*R|tcp|tunnel|client",
      SAY("lets somebody outside in through a tunnel", LOOK_WHO) },
    { "shell.download", SH, SCAN_INFO, E, LOOK_ACT, .name = "curl|wget",
      SAY("talks to the network", LOOK_WHO) },

    /* --- Shell: hiding --- */
    { "shell.decoded-run", SH, CRIT, O, LOOK_INTO,
      .name = "base64|base32|openssl|xxd|uudecode|gunzip|zcat|bunzip2|xz|rev|tr|printf|hexdump|od|"
              "gpg|bzcat|xzcat|awk|basenc",
      .into = "sh|bash|zsh|ksh|dash|ash|eval|source|.|(run)|python|python3*|perl|ruby|node",
      SAY("runs a text that it first decodes", PLAIN) },
    { "shell.ifs", SH, HIGH, O, LOOK_CODE, SPECIAL_IFS, SAY("writes blanks as $IFS", PLAIN) },
    { "shell.pieces", SH, HIGH, O, LOOK_CODE, SPECIAL_PIECES,
      SAY("puts the name of a command together from pieces of others", PLAIN) },
    { "code.depth", IN_ANY, HIGH, O, LOOK_CODE, SPECIAL_DEPTH,
      SAY("is nested deeper than anybody could read", PLAIN) },
    { "text.long-line", IN_ANY, SCAN_LOW, O, LOOK_CODE, SPECIAL_LONG_LINE,
      SAY("has a line of more than 4096 bytes", PLAIN) },
    { "text.binary", IN_ANY, MED, O, LOOK_CODE, SPECIAL_BINARY,
      SAY("is not text and cannot be looked into", "Ask for its source.") },
    { "text.nul", SH | PY | JS | IN_C | 1 << SCAN_UNKNOWN, MED, O, LOOK_CODE, SPECIAL_NUL,
      SAY("holds a NUL byte, behind which readers may differ", PLAIN) },
    { "text.bidi", IN_ANY, HIGH, O, LOOK_CODE, SPECIAL_BIDI,
      SAY("holds marks that show text in another order than it runs", PLAIN) },

    /* --- Shell: exhausting --- */
    { "shell.fork-bomb", SH, CRIT, R, LOOK_CODE, SPECIAL_FORK_BOMB,
      SAY("a function that starts itself twice: a fork bomb", BOUND) },
    { "shell.background-loop", SH, HIGH, R, LOOK_LOOP, .name = "&",
      SAY("starts processes without end", BOUND) },
    { "shell.fill-loop", SH, HIGH, R, LOOK_LOOP, .name = ">|dd|fallocate|mktemp|mkdir|touch|cp|cat",
      SAY("writes without end", BOUND) },
    { "shell.zeros", SH, HIGH, R, LOOK_ACT,
      .name = "cat|cp|tail|sort|tac|gzip|tee|md5sum|sha256sum|sha512sum|base64|xz|grep",
      .args = "/dev/zero|/dev/urandom|/dev/random", SAY("reads a file that has no end", BOUND) },
    { "shell.yes-file", SH, HIGH, R, LOOK_INTO, .name = "yes",
      .into = ">|tee|sort|tail|tr|xargs|awk", SAY("writes without end", BOUND) },
    { "shell.huge-file", SH, HIGH, R, LOOK_ACT, .name = "fallocate|truncate|dd|head",
      .args = "1*T|2*T|3*T|4*T|5*T|6*T|7*T|8*T|9*T|*000G",
      SAY("makes a file of a terabyte or more", BOUND) },
    { "shell.dd-endless", SH, HIGH, R, LOOK_ACT, .name = "dd-endless",
      SAY("fills the disk until it is full", BOUND) },
    { "shell.stress", SH, HIGH, R, LOOK_ACT,
      .name = "stress|stress-ng|xmrig|minerd|cpuminer*|xmr-stak*|ethminer|cgminer|nbminer|t-rex",
      SAY("burns processors or memory on purpose", BOUND) },
    { "shell.mining", SH, CRIT, R, LOOK_ACT, .name = "*",
      .args = "*stratum+tcp://*|*stratum+ssl://*|*pool.minexmr*|*xmrig*|*cryptonight*",
      SAY("mines money for somebody", "Do not run it.") },
    { "shell.limits", SH, MED, R, LOOK_ACT, .name = "ulimit", .args = "unlimited",
      SAY("takes limits away", BOUND) },

    /* --- Python --- */
    { "python.rmtree", PY, CRIT, D, LOOK_ACT, .name = "shutil.rmtree|rmtree|os.removedirs|*.rmtree",
      .args = ROOTS, SAY("removes a whole tree of the system or of a home directory", BE_SURE) },
    { "python.rmtree-home", PY, CRIT, D, LOOK_INTO,
      .name = "os.path.expanduser|Path.home|pathlib.Path.home|os.getenv|os.environ.get",
      .args = "~|~/|HOME|?", .into = "shutil.rmtree|rmtree",
      SAY("removes a home directory", BE_SURE) },
    { "python.rmtree-joined", PY, CRIT, D, LOOK_INTO, .name = "os.path.join|pathlib.Path|Path",
      .args = "/", .into = "shutil.rmtree|rmtree|os.remove|os.unlink|*.unlink",
      SAY("removes from the root directory on", BE_SURE) },
    { "python.remove-system", PY, HIGH, D, LOOK_ACT,
      .name = "os.remove|os.unlink|os.truncate|os.rename|shutil.move|os.rmdir",
      .args = "/etc/*|/boot/*|/usr/*|/bin/*|/var/log/*|/lib/*",
      SAY("removes files of the system", BE_SURE) },
    { "python.write-disk", PY, CRIT, D, LOOK_ACT, .name = "open|os.open|io.open", .args = DISKS,
      .also = "w*|r+*|a*|?*", SAY("opens a disk's device", NO_DISK) },
    { "python.write-system", PY, HIGH, D, LOOK_ACT, .name = "open|io.open|codecs.open",
      .args = "/etc/passwd|/etc/shadow|/etc/sudoers*|/etc/ld.so.preload|/boot/*|/etc/cron*|/proc/"
              "sysrq-trigger|/etc/systemd/system/*|*authorized_keys|/etc/profile*|*.bashrc",
      .also = "w|wb|a|ab|w+|a+|r+|r+b",
      SAY("writes a file that the system lives by",
          "Leave the system's files to its administrator.") },
    { "python.kill-all", PY, HIGH, D, LOOK_ACT, .name = "os.kill|os.killpg", .args = "-1",
      SAY("kills everything that it may kill", "Kill what was started, by its number.") },
    { "python.walk-remove", PY, HIGH, D, LOOK_BOTH,
      .name = "os.walk|glob.glob|glob.iglob|os.listdir|os.scandir", .args = ROOTS,
      .into = "os.remove|os.unlink|shutil.rmtree|*.unlink",
      SAY("removes what it finds in the system or a home directory", BE_SURE) },
    { "python.encrypts-files", PY, HIGH, D, LOOK_BOTH,
      .name = "os.walk|os.scandir|glob.glob|*.rglob",
      .into = "Fernet|cryptography.fernet.Fernet|AES.new|Crypto.Cipher.AES.new|Cryptodome.Cipher."
              "AES.new",
      SAY("walks through files and encrypts: what ransomware does",
          "See whose files these are, and who holds the key.") },
    { "python.secret-sent", PY, CRIT, E, LOOK_INTO,
      .name =
          "open|io.open|os.path.expanduser|pathlib.Path|Path|os.path.join|*.joinpath|*.read_text|"
          "glob.glob|os.open|shutil.make_archive|tarfile.open|sqlite3.connect|shutil.copy*",
      .args = SECRETS, .into = PY_SENDERS, SAY("sends credentials away", NO_SECRETS) },
    { "python.secret-and-net", PY, HIGH, E, LOOK_BOTH,
      .name =
          "open|io.open|os.path.expanduser|pathlib.Path|Path|os.path.join|*.joinpath|*.read_text|"
          "glob.glob|os.open|shutil.make_archive|tarfile.open|sqlite3.connect|os.listdir|os.walk",
      .args = SECRETS, .into = PY_SENDERS "|socket.socket|socket.create_connection|*.connect",
      SAY("reads credentials and talks to the network", NO_SECRETS) },
    { "python.secret-read", PY, MED, E, LOOK_ACT,
      .name = "open|io.open|os.path.expanduser|pathlib.Path|Path|*.read_text|os.open",
      .args = SECRETS, SAY("reads credentials", NO_SECRETS) },
    { "python.environment-sent", PY, CRIT, E, LOOK_INTO,
      .name = "dict|json.dumps|str|os.environ.copy|os.environ.items|repr|urllib.parse.urlencode|"
              "list|pprint.pformat",
      .args = "(environ)", .into = PY_SENDERS,
      SAY("sends all environment variables away, and the secrets in them", NO_SECRETS) },
    { "python.environment-copied", PY, CRIT, E, LOOK_INTO,
      .name = "os.environ.copy|os.environ.items|os.environ.values", .into = PY_SENDERS,
      SAY("sends all environment variables away, and the secrets in them", NO_SECRETS) },
    { "python.environment-direct", PY, CRIT, E, LOOK_ACT, .name = PY_SENDERS, .args = "(environ)",
      SAY("sends all environment variables away, and the secrets in them", NO_SECRETS) },
    { "python.metadata", PY, HIGH, E, LOOK_ACT,
      .name = PY_SENDERS "|*.connect|*.get|*.request|*.Request", .args = METADATA,
      SAY("asks the cloud's metadata service, which hands out the machine's credentials",
          NO_SECRETS) },
    { "python.download-run", PY, CRIT, E, LOOK_INTO,
      .name = "requests.*|urllib.request.*|urllib2.urlopen|urlopen|httpx.*|*.recv|http.client.*",
      .into = PY_RUN, SAY("runs what it downloads without looking", LOOK_UP) },
    { "python.reverse-shell", PY, CRIT, E, LOOK_BOTH, .name = "os.dup2",
      .into = "*.connect|socket.create_connection|socket.socket",
      SAY("connects a shell to somebody outside", LOOK_WHO) },
    { "python.pty-shell", PY, CRIT, E, LOOK_BOTH, .name = "pty.spawn",
      .into = "*.connect|socket.create_connection",
      SAY("connects a shell to somebody outside", LOOK_WHO) },
    { "python.keylogger", PY, HIGH, E, LOOK_ACT,
      .name = "pynput.keyboard.Listener|keyboard.on_press|keyboard.Listener|pynput.*Listener|"
              "keyboard.hook|ImageGrab.grab|PIL.ImageGrab.grab|pyautogui.screenshot|mss.mss",
      SAY("watches keyboard or screen", "See why it would need that.") },
    { "python.decoded-run", PY, CRIT, O, LOOK_INTO,
      .name = "base64.*|zlib.decompress|codecs.decode|bytes.fromhex|binascii.*|marshal.loads|"
              "bytearray.fromhex|gzip.decompress|lzma.decompress|bz2.decompress|b64decode|chr|*."
              "fromhex|bytes|*.decrypt",
      .into = "exec|eval|compile|os.system|os.popen|builtins.exec|builtins.eval|types.FunctionType|"
              "subprocess.*|marshal.loads|getattr|__import__|builtins.compile",
      SAY("runs a text that it first decodes", PLAIN) },
    { "python.hidden-call", PY, HIGH, O, LOOK_ACT, .name = "getattr",
      .args = "system|popen|exec|eval|__import__|spawn|b64decode|rmtree|remove|unlink",
      SAY("hides which function it calls", PLAIN) },
    { "python.builtins-index", PY, HIGH, O, LOOK_ACT,
      .name = "__builtins__.exec|__builtins__.eval|globals().__builtins__*|vars().*|__builtins__.__"
              "import__|globals().exec|globals().eval|builtins.__dict__*|__builtins__.__dict__*",
      SAY("hides which function it calls", PLAIN) },
    { "python.eval", PY, MED, O, LOOK_ACT, .name = "eval|exec", .args = "?",
      SAY("runs a text that is made while it runs",
          "Read what the text can be; use ast.literal_eval for data.") },
    { "python.pickle", PY, MED, O, LOOK_ACT,
      .name = "pickle.loads|pickle.load|cPickle.loads|marshal.loads|dill.loads",
      SAY("loads data that can run code", "Use JSON for data of others.") },
    { "python.fork-loop", PY, CRIT, R, LOOK_LOOP,
      .name = "os.fork|fork|multiprocessing.Process|*.Process|threading.Thread|subprocess.Popen|os."
              "system|subprocess.run",
      SAY("starts processes or threads without end", BOUND) },
    { "python.grow-loop", PY, HIGH, R, LOOK_LOOP,
      .name = "*.append|*.extend|bytearray|*.write|*.update|*.add|*.writelines|os.mkdir|os."
              "makedirs|open",
      SAY("takes memory or disk without end", BOUND) },
    { "python.sockets-loop", PY, HIGH, R, LOOK_LOOP,
      .name = "*.sendto|*.sendall|*.send|socket.socket|requests.get|requests.post|*.connect",
      SAY("sends without end: a flood", BOUND) },
    { "python.mining", PY, CRIT, R, LOOK_ACT, .name = "*",
      .args = "*stratum+tcp://*|*stratum+ssl://*",
      SAY("mines money for somebody", "Do not run it.") },

    /* --- JavaScript --- */
    { "javascript.remove-tree", JS, CRIT, D, LOOK_ACT,
      .name = "fs.rm|fs.rmSync|fs.rmdir|fs.rmdirSync|rimraf|rimraf.sync|fs.promises.rm|fs/"
              "promises.rm|fs-extra.remove*|fs.removeSync|del|fs.remove",
      .args = ROOTS, SAY("removes a whole tree of the system or of a home directory", BE_SURE) },
    { "javascript.remove-home", JS, CRIT, D, LOOK_INTO, .name = "os.homedir|os.userInfo",
      .into =
          "fs.rm|fs.rmSync|fs.rmdir|fs.rmdirSync|rimraf|rimraf.sync|fs.promises.rm|fs/promises.rm",
      SAY("removes a home directory", BE_SURE) },
    { "javascript.remove-system", JS, HIGH, D, LOOK_ACT,
      .name = "fs.unlink|fs.unlinkSync|fs.truncate*|fs.promises.unlink|fs/promises.unlink",
      .args = "/etc/*|/boot/*|/usr/*|/bin/*|/var/log/*",
      SAY("removes files of the system", BE_SURE) },
    { "javascript.write-system", JS, HIGH, D, LOOK_ACT,
      .name = "fs.writeFile*|fs.appendFile*|fs.createWriteStream|fs.promises.writeFile|fs/"
              "promises.writeFile|fs.openSync|fs.open",
      .args = "/etc/passwd|/etc/shadow|/etc/sudoers*|/boot/*|/etc/cron*|/dev/sd*|/dev/nvme*|/dev/"
              "vd*|/etc/ld.so.preload|*authorized_keys|/etc/systemd/*|/proc/sysrq-trigger|*.bashrc",
      SAY("writes a file that the system lives by",
          "Leave the system's files to its administrator.") },
    { "javascript.secret-sent", JS, CRIT, E, LOOK_INTO,
      .name = "fs.readFile*|fs.createReadStream|path.join|path.resolve|fs.promises.readFile|fs/"
              "promises.readFile|fs.readdir*|readFileSync|readFile",
      .args = SECRETS, .into = JS_SENDERS, SAY("sends credentials away", NO_SECRETS) },
    { "javascript.secret-and-net", JS, HIGH, E, LOOK_BOTH,
      .name = "fs.readFile*|fs.createReadStream|path.join|path.resolve|fs.promises.readFile|fs/"
              "promises.readFile|fs.readdir*|readFileSync|readFile|join",
      .args = SECRETS, .into = JS_SENDERS "|*.connect|net.Socket",
      SAY("reads credentials and talks to the network", NO_SECRETS) },
    { "javascript.secret-read", JS, MED, E, LOOK_ACT,
      .name = "fs.readFile*|fs.createReadStream|path.join", .args = SECRETS,
      SAY("reads credentials", NO_SECRETS) },
    { "javascript.environment-sent", JS, CRIT, E, LOOK_ACT,
      .name = "JSON.stringify|" JS_SENDERS "|Object.entries|querystring.stringify|Buffer.from",
      .args = "(environ)",
      SAY("takes all environment variables to hand them on, and the secrets in them", NO_SECRETS) },
    { "javascript.metadata", JS, HIGH, E, LOOK_ACT,
      .name = JS_SENDERS "|*.get|*.request|net.createConnection", .args = METADATA,
      SAY("asks the cloud's metadata service, which hands out the machine's credentials",
          NO_SECRETS) },
    { "javascript.download-run", JS, CRIT, E, LOOK_INTO,
      .name = "fetch|axios|axios.*|got|got.*|http.get|https.get|request|*.text|node-fetch",
      .into = "eval|Function|vm.*|child_process.*|execSync|*._compile",
      SAY("runs what it downloads without looking", LOOK_UP) },
    { "javascript.download-and-run", JS, HIGH, E, LOOK_BOTH,
      .name = "http.get|https.get|fetch|axios.get|request",
      .into = "eval|Function|vm.runInThisContext|vm.runInNewContext|vm.runInContext",
      SAY("downloads, and runs texts", LOOK_UP) },
    { "javascript.shell-on-socket", JS, CRIT, E, LOOK_BOTH,
      .name = "child_process.spawn|child_process.exec*|spawn",
      .args = "/bin/sh|/bin/bash|sh|bash|cmd.exe|powershell*",
      .into = "net.connect|net.Socket|net.createConnection|*.connect|tls.connect",
      SAY("connects a shell to somebody outside", LOOK_WHO) },
    { "javascript.cookies", JS, HIGH, E, LOOK_ACT,
      .name = JS_SENDERS "|encodeURIComponent|btoa|Image", .args = "(cookie)",
      SAY("takes the page's cookies", NO_SECRETS) },
    { "javascript.decoded-run", JS, CRIT, O, LOOK_INTO,
      .name = "atob|Buffer.from|unescape|decodeURIComponent|String.fromCharCode|String."
              "fromCodePoint|*.fromCharCode|zlib.*|*.decrypt|crypto.createDecipher*|Buffer",
      .into = JS_RUN, SAY("runs a text that it first decodes", PLAIN) },
    { "javascript.hidden-require", JS, HIGH, O, LOOK_INTO,
      .name = "Buffer.from|atob|String.fromCharCode|unescape", .into = "require|import",
      SAY("hides which module it loads", PLAIN) },
    { "javascript.constructor", JS, HIGH, O, LOOK_ACT,
      .name = "*.constructor.constructor|*.constructor().constructor|*.constructor().*|globalThis."
              "Function|*.constructor",
      .args = "*", SAY("makes a function from a text, by a way round", PLAIN) },
    { "javascript.hidden-global", JS, HIGH, O, LOOK_ACT,
      .name = "global.require|globalThis.require|process.mainModule.require|global.eval|"
              "globalThis.eval|window.eval|process.binding|process._linkedBinding|process.dlopen",
      SAY("goes round the usual way to a module or to eval", PLAIN) },
    { "javascript.eval", JS, MED, O, LOOK_ACT, .name = "eval|Function", .args = "?",
      SAY("runs a text that is made while it runs",
          "Read what the text can be; use JSON.parse for data.") },
    { "javascript.fork-loop", JS, CRIT, R, LOOK_LOOP,
      .name = "child_process.*|fork|spawn|exec|cluster.fork|Worker|worker_threads.Worker|execSync",
      SAY("starts processes or threads without end", BOUND) },
    { "javascript.grow-loop", JS, HIGH, R, LOOK_LOOP,
      .name = "*.push|Buffer.alloc*|fs.write*|fs.appendFile*|*.concat|Array|Array().*|*.add|*.set|"
              "fs.mkdirSync|crypto.randomBytes|ArrayBuffer|Uint8Array",
      SAY("takes memory or disk without end", BOUND) },
    { "javascript.flood", JS, HIGH, R, LOOK_LOOP,
      .name = "fetch|http.get|http.request|https.get|https.request|net.connect|*.send|axios.*",
      SAY("sends without end: a flood", BOUND) },
    { "javascript.self-copies", JS, HIGH, R, LOOK_ACT,
      .name = "child_process.fork|child_process.spawn|fork|spawn|cluster.fork", .args = "(self)",
      SAY("starts itself again", BOUND) },
    { "javascript.mining", JS, CRIT, R, LOOK_ACT, .name = "*",
      .args = "*stratum+tcp://*|*coinhive*|*stratum+ssl://*|*cryptonight*",
      SAY("mines money for somebody", "Do not run it.") },

    /* --- C --- */
    { "c.remove-system", IN_C, HIGH, D, LOOK_ACT,
      .name = "unlink|remove|truncate|rmdir|unlinkat|rename",
      .args = "/etc/*|/boot/*|/usr/*|/bin/*|/var/log/*|/lib/*",
      SAY("removes files of the system", BE_SURE) },
    { "c.write-disk", IN_C, CRIT, D, LOOK_ACT, .name = "open|fopen|open64|openat", .args = DISKS,
      SAY("opens a disk's device", NO_DISK) },
    { "c.write-system", IN_C, HIGH, D, LOOK_ACT, .name = "fopen|freopen",
      .args = "/etc/passwd|/etc/shadow|/etc/sudoers*|/etc/ld.so.preload|/boot/*|/etc/cron*|/proc/"
              "sysrq-trigger|/etc/systemd/*|*authorized_keys|/etc/hosts",
      .also = "w*|a*|r+*",
      SAY("writes a file that the system lives by",
          "Leave the system's files to its administrator.") },
    { "c.open-system", IN_C, HIGH, D, LOOK_ACT, .name = "open|creat",
      .args = "/proc/sysrq-trigger|/etc/ld.so.preload|/dev/mem|/dev/kmem|/etc/"
              "sudoers*|*authorized_keys",
      SAY("opens a file that the system lives by",
          "Leave the system's files to its administrator.") },
    { "c.reboot", IN_C, CRIT, D, LOOK_ACT,
      .name = "reboot|init_module|finit_module|delete_module|kexec_load",
      SAY("restarts the machine or changes its kernel", "A program does not restart a machine.") },
    { "c.walk-remove", IN_C, HIGH, D, LOOK_BOTH, .name = "nftw|ftw|fts_open|opendir", .args = ROOTS,
      .into = "unlink|remove|rmdir|unlinkat",
      SAY("removes what it finds in the system or a home directory", BE_SURE) },
    { "c.nftw-root", IN_C, HIGH, D, LOOK_ACT, .name = "nftw|ftw", .args = ROOTS,
      SAY("walks through the whole system", BE_SURE) },
    { "c.walk-home", IN_C, HIGH, D, LOOK_INTO, .name = "getenv|getpwuid|secure_getenv",
      .args = "HOME", .into = "nftw|ftw|fts_open", SAY("walks through a home directory", BE_SURE) },
    { "c.secret-sent", IN_C, CRIT, E, LOOK_INTO,
      .name = "fopen|open|openat|snprintf|sprintf|strcat|opendir", .args = SECRETS,
      .into = "send|sendto|sendmsg|SSL_write|curl_easy_setopt|curl_easy_perform|dprintf",
      SAY("sends credentials away", NO_SECRETS) },
    { "c.secret-and-net", IN_C, HIGH, E, LOOK_BOTH,
      .name = "fopen|open|openat|snprintf|sprintf|strcat|opendir", .args = SECRETS,
      .into = "connect|sendto|curl_easy_perform|getaddrinfo|SSL_connect|gethostbyname",
      SAY("reads credentials and talks to the network", NO_SECRETS) },
    { "c.secret-read", IN_C, MED, E, LOOK_ACT, .name = "fopen|open|openat", .args = SECRETS,
      SAY("reads credentials", NO_SECRETS) },
    { "c.metadata", IN_C, HIGH, E, LOOK_ACT,
      .name = "inet_addr|inet_pton|inet_aton|getaddrinfo|curl_easy_setopt|gethostbyname",
      .args = METADATA,
      SAY("asks the cloud's metadata service, which hands out the machine's credentials",
          NO_SECRETS) },
    { "c.reverse-shell", IN_C, CRIT, E, LOOK_BOTH,
      .name = "execl|execlp|execve|execv|execvp|execle|system",
      .args = "/bin/sh|/bin/bash|sh|bash|/bin/sh -i|/bin/bash -i", .into = "dup2|dup3",
      SAY("gives a shell other ends for its input and output", LOOK_WHO) },
    { "c.socket-as-input", IN_C, HIGH, E, LOOK_BOTH, .name = "dup2|dup3",
      .into = "connect|accept|accept4",
      SAY("makes a connection the input or output of a program", LOOK_WHO) },
    { "c.made-command", IN_C, HIGH, E, LOOK_BOTH, .name = "snprintf|sprintf|asprintf|strcpy|strcat",
      .args = "*curl *|*wget *|*rm -rf *|*base64 -d*|*/dev/tcp/*",
      .into = "system|popen|execl|execlp|execv|execvp|execve",
      SAY("puts a command together that downloads, decodes or deletes, and runs commands", PLAIN) },
    { "c.preload", IN_C, HIGH, E, LOOK_ACT, .name = "setenv|putenv",
      .args = "LD_PRELOAD|LD_PRELOAD=*|LD_AUDIT*",
      SAY("has a library loaded into programs", "See what that library does.") },
    { "c.trace", IN_C, HIGH, E, LOOK_ACT, .name = "ptrace|process_vm_readv|process_vm_writev",
      .args = "?", SAY("looks into, or changes, other processes", "See which, and why.") },
    { "c.downloaded-run", IN_C, CRIT, E, LOOK_INTO, .name = "recv|SSL_read|recvfrom",
      .into = "system|popen|execl|execve|execv|execlp|execvp",
      SAY("runs what somebody outside says", LOOK_WHO) },
    { "c.memory-run", IN_C, HIGH, O, LOOK_BOTH, .name = "mmap|mprotect", .args = "(exec)",
      .into = "memcpy|memmove|recv|read|strcpy|bcopy",
      SAY("copies bytes into memory and lets them run", PLAIN) },
    { "c.memfd-run", IN_C, HIGH, O, LOOK_BOTH, .name = "memfd_create|syscall", .args = "*",
      .into = "fexecve|execveat", SAY("runs a program that is in no file", PLAIN) },
    { "c.hide", IN_C, HIGH, O, LOOK_ACT, .name = "prctl",
      .args = "[kworker*|kworker*|*kthread*|[*]", SAY("gives itself the name of another", PLAIN) },
    { "c.fork-loop", IN_C, CRIT, R, LOOK_LOOP,
      .name = "fork|vfork|pthread_create|clone|clone3|system|popen",
      SAY("starts processes or threads without end", BOUND) },
    { "c.grow-loop", IN_C, HIGH, R, LOOK_LOOP,
      .name = "malloc|calloc|realloc|mmap|sbrk|strdup|open|socket|creat|mkdir|pipe|fopen|write|"
              "fwrite|fputs|fputc|putc",
      SAY("takes memory, descriptors or disk without end", BOUND) },
    { "c.flood", IN_C, HIGH, R, LOOK_LOOP, .name = "sendto|send|connect|sendmsg",
      SAY("sends without end: a flood", BOUND) },
    { "c.raw-flood", IN_C, MED, R, LOOK_ACT, .name = "socket", .args = "(raw)",
      SAY("makes network packets by hand", LOOK_WHO) },
    { "c.mining", IN_C, CRIT, R, LOOK_ACT, .name = "*", .args = "*stratum+tcp://*|*cryptonight*",
      SAY("mines money for somebody", "Do not run it.") },
    { "c.temporary", IN_C, SCAN_LOW, O, LOOK_ACT, .name = "gets|tmpnam|mktemp",
      SAY("uses a function that nobody can use safely", "Use fgets, mkstemp.") },
};

const size_t scan_rule_count = COUNT_OF(scan_rules);

_Static_assert(COUNT_OF(scan_rules) <= SCAN_RULES_MAX, "rules");
