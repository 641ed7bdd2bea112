//go:build unix

package scene

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// spareAccount has no name on any system, and no step of a build gets it.
const spareAccount = 1<<30 - 1

// otherAccount is who became root with sudo, else an account without a name.
func otherAccount() int {
	if n, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil && n > 0 {
		return n
	}
	return spareAccount
}

// runUnder makes a command run under an account.
func runUnder(cmd *exec.Cmd, account int) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(account), Gid: uint32(account)}}
}
