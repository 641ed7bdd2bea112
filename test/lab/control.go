package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrRunning says that a directory already has a running lab.
var ErrRunning = errors.New("a lab is already running there; stop it with: waybill-lab down --dir DIR")

// Hold claims dir, which it makes, for one process: two labs on one directory
// would break each other's state. The claim ends with the process, however
// that ends, so a claim is proof of life where a pid file is not.
func Hold(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the lab's directory: %w", err)
	}
	return claim(dir, os.O_CREATE)
}

// claim locks the lock file, which flag may tell it to make.
func claim(dir string, flag int) (release func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claiming %q: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrRunning
		}
		return nil, errors.Join(fmt.Errorf("claiming %q: %w", dir, err), f.Close())
	}
	return f.Close, nil
}

// Down stops the lab that runs in dir and waits until its process has let go
// of it. It returns [ErrNotRunning] when there is none.
func Down(ctx context.Context, dir string) error {
	free, err := gone(dir)
	if err != nil {
		return err
	}
	if free {
		return fmt.Errorf("looking into %q: %w", dir, ErrNotRunning)
	}
	page, err := ReadPage(dir)
	if err != nil {
		return err
	}
	if err := syscall.Kill(page.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping process %d: %w", page.PID, err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for process %d: %w", page.PID, ctx.Err())
		case <-tick.C:
		}
		if free, err := gone(dir); free || err != nil {
			return err
		}
	}
}

// gone reports whether nobody holds dir. It makes nothing there: a lab in a
// temporary directory removes that before it lets go.
func gone(dir string) (bool, error) {
	release, err := claim(dir, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, ErrRunning):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, release()
}

// RequestToken asks the issuer at url, a [Page]'s Issuer, for a token.
func RequestToken(ctx context.Context, url string, r TokenRequest) (string, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding the token request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/lab/token", bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("asking for a token: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking for a token: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("asking for a token: the issuer says %d %s", resp.StatusCode, strings.TrimSpace(string(b)))
	}
	var out TokenResponse
	if err := json.Unmarshal(b, &out); err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	return out.Token, nil
}
