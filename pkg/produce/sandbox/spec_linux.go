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

// What the launcher starts its runner with: a name that no user types, an
// argument with which a test binary that does not call [Serve] runs nothing,
// and a variable by which such a program knows that it is no launcher.
const (
	runnerName = "waybill-sandbox-runner"
	runnerArg  = "-test.run=^$"
	runnerEnv  = "WAYBILL_SANDBOX_RUNNER"
)

// Descriptors of the runner: the talk with the launcher, then the mounts that
// the launcher opened for it.
const (
	talkFD  = 3
	treesFD = 4
)

// Accounts as they are called inside. The step's is not 0: a process that is
// root nowhere loses, with exec, what the maker of a user namespace has.
const (
	runnerID = 0
	stepID   = 1000
)

// spec is what the runner is told: all that it needs to make the walls, and
// nothing of whom it is for.
type spec struct {
	inside
	Command []string `json:"command"` // none: make the walls and report
	Env     []string `json:"env"`
	Proxied bool     `json:"proxied"`
	Account account  `json:"account"`
	// Limits of one process, for what no control group bounds.
	Processes uint64 `json:"processes"`
	FileSize  uint64 `json:"fileSize"`
	Data      uint64 `json:"data"` // 0 for no bound
}

// tree is one mount of the step's root.
type tree struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Writable bool   `json:"writable"`
	Device   bool   `json:"device"`
}

// account says how the accounts inside stand to those outside.
type account string

const (
	// pair: the launcher is root, runner and step have two accounts that
	// nobody else has.
	pair account = "pair"
	// delegated: the runner has the launcher's account, the step one of the
	// range that /etc/subuid delegates.
	delegated account = "delegated"
	// shared: all have the launcher's account.
	shared account = "shared"
)

// ready is the first thing that the runner says.
type ready struct {
	Error  string `json:"error,omitempty"`
	Report Report `json:"report"`
}

// ended is the last.
type ended struct {
	Error  string `json:"error,omitempty"` // it could not be started
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
}

// Bounds of one message, and of a packet, which the kernel keeps in one piece.
const (
	maxTalk   = 16 << 20
	maxPacket = 64 << 10
)

// What the first byte of a packet says of its message.
const (
	goesOn byte = '+'
	ends   byte = '.'
)

// talk is one end of the socket between launcher and runner. Each message is
// some packets, with at most one descriptor in the first.
type talk struct{ conn *net.UnixConn }

// newTalk makes both ends.
func newTalk() (near talk, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return talk{}, nil, fmt.Errorf("making a socket: %w", err)
	}
	far = os.NewFile(uintptr(fds[1]), "runner")
	near, err = openTalk(os.NewFile(uintptr(fds[0]), "launcher"))
	if err != nil {
		_ = far.Close() // nothing was said through it
	}
	return near, far, err
}

// openTalk takes the file over.
func openTalk(f *os.File) (talk, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return talk{}, fmt.Errorf("opening the socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return talk{}, errors.Join(errors.New("opening the socket: it is none of ours"), c.Close())
	}
	return talk{conn: u}, nil
}

func (t talk) say(message any, files ...*os.File) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	for _, f := range files {
		rights = append(rights, unix.UnixRights(int(f.Fd()))...)
	}
	for kind := goesOn; kind == goesOn && err == nil; rights = nil {
		part := raw[:min(len(raw), maxPacket)]
		if raw = raw[len(part):]; len(raw) == 0 {
			kind = ends
		}
		_, _, err = t.conn.WriteMsgUnix(append([]byte{kind}, part...), rights, nil)
	}
	return err
}

func (t talk) hear(message any) (f *os.File, err error) {
	packet, rights, raw := make([]byte, 1+maxPacket), make([]byte, unix.CmsgSpace(4)), []byte{}
	for kind := goesOn; kind == goesOn; {
		n, r, flags, _, err := t.conn.ReadMsgUnix(packet, rights)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, errors.New("the other process ended")
		}
		if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(raw)+n > maxTalk {
			return nil, errors.New("the other process said too much")
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

// received is the descriptor that came with a packet, the first of a message.
func received(rights []byte, before *os.File) (*os.File, error) {
	odd := errors.New("the other process sent something odd")
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
