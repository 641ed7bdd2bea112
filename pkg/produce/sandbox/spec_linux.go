//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// How the launcher starts its runner: with a name that no user types, an
// argument with which a test binary that does not call [Serve] runs nothing,
// and a variable that tells such a program that it is not a launcher.
const (
	runnerName = "waybill-sandbox-runner"
	runnerArg  = "-test.run=^$"
	runnerEnv  = "WAYBILL_SANDBOX_RUNNER"
)

// Descriptors of the runner: the connection to the launcher, then the mounts
// that the launcher opened for it.
const (
	talkFD  = 3
	treesFD = 4
)

// Accounts inside the namespace. The step's is not 0: an unprivileged account
// loses the capabilities of a namespace's creator with exec.
const (
	runnerID = 0
	stepID   = 1000
)

// spec is the launcher's instruction to the runner: all that is needed to set
// up the isolation.
type spec struct {
	inside
	Command []string `json:"command"` // none: set up the isolation and report
	Env     []string `json:"env"`
	Proxied bool     `json:"proxied"`
	Account account  `json:"account"`
	// Limits of one process, in addition to control groups.
	Processes uint64 `json:"processes"`
	FileSize  uint64 `json:"fileSize"`
	Data      uint64 `json:"data"` // 0 for unlimited
}

// tree is one mount of the step's root.
type tree struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Writable bool   `json:"writable"`
	Device   bool   `json:"device"`
}

// account says how the accounts inside are mapped to those outside.
type account string

const (
	// pair: the launcher is root, runner and step have two exclusive
	// accounts.
	pair account = "pair"
	// delegated: the runner has the launcher's account, the step one of the
	// range delegated in /etc/subuid.
	delegated account = "delegated"
	// shared: all have the launcher's account.
	shared account = "shared"
)

// ready is the runner's first message.
type ready struct {
	Error  string `json:"error,omitempty"`
	Report Report `json:"report"`
}

// ended is the runner's last message.
type ended struct {
	Error  string `json:"error,omitempty"` // the step could not be started
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
}

// Limits of one message, and of a packet, which the kernel does not split.
const (
	maxTalk   = 16 << 20
	maxPacket = 64 << 10
)

// The first byte of a packet.
const (
	moreFollows byte = '+'
	lastPacket  byte = '.'
)

// talk is one end of the connection between launcher and runner. Each message
// is a number of packets, with at most one descriptor in the first.
type talk struct{ conn *net.UnixConn }

// newTalk creates both ends.
func newTalk() (near talk, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return talk{}, nil, fmt.Errorf("making a socket: %w", err)
	}
	far = os.NewFile(uintptr(fds[1]), "runner")
	near, err = openTalk(os.NewFile(uintptr(fds[0]), "launcher"))
	if err != nil {
		_ = far.Close() // nothing was sent through it
	}
	return near, far, err
}

// openTalk takes over the file.
func openTalk(f *os.File) (talk, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return talk{}, fmt.Errorf("opening the socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return talk{}, errors.Join(errors.New("opening the socket: not a Unix socket"), c.Close())
	}
	return talk{conn: u}, nil
}

func (t talk) send(message any, files ...*os.File) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	for _, f := range files {
		rights = append(rights, unix.UnixRights(int(f.Fd()))...)
	}
	for kind := moreFollows; kind == moreFollows && err == nil; rights = nil {
		part := raw[:min(len(raw), maxPacket)]
		if raw = raw[len(part):]; len(raw) == 0 {
			kind = lastPacket
		}
		_, _, err = t.conn.WriteMsgUnix(append([]byte{kind}, part...), rights, nil)
	}
	return err
}

func (t talk) receive(message any) (f *os.File, err error) {
	packet, rights, raw := make([]byte, 1+maxPacket), make([]byte, unix.CmsgSpace(4)), []byte{}
	for kind := moreFollows; kind == moreFollows; {
		n, r, flags, _, err := t.conn.ReadMsgUnix(packet, rights)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, errors.New("the other process ended")
		}
		if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(raw)+n > maxTalk {
			return nil, errors.New("the message of the other process is too long")
		}
		if r > 0 {
			if f, err = received(rights[:r], f); err != nil {
				return nil, err
			}
		}
		kind, raw = packet[0], append(raw, packet[1:n]...)
	}
	return f, json.Unmarshal(raw, message)
}

// received is the descriptor in a packet, which must be the first of a
// message.
func received(rights []byte, before *os.File) (*os.File, error) {
	odd := errors.New("the other process sent an unexpected control message")
	list, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(list) != 1 || before != nil {
		return nil, odd
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return nil, odd
	}
	return os.NewFile(uintptr(fds[0]), "listener"), nil
}
