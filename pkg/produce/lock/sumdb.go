package lock

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// goKey is the key of Go's public checksum database, as in the go command.
const goKey = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"

// maxSumDB limits each answer of the checksum database.
const maxSumDB = 1 << 20

// checksums looks toolchains up in a checksum database. Each answer is included
// in the tree that the database signed. No earlier tree is kept, so a database
// that shows different trees to different clients is not detected.
type checksums struct {
	key, url string
	rt       http.RoundTripper
}

// sumDB is the database that GOSUMDB names, as in the go command: "NAME[+KEY]
// [URL]", by default sum.golang.org.
func sumDB(rt http.RoundTripper) (checksums, error) {
	key, url, _ := strings.Cut(cmp.Or(os.Getenv("GOSUMDB"), "sum.golang.org"), " ")
	if key == "sum.golang.org" {
		key = goKey
	}
	name, _, _ := strings.Cut(key, "+")
	if _, err := note.NewVerifier(key); err != nil {
		return checksums{}, verdict.Refuse(verdict.Usage, "GOSUMDB", "%q: the checksum of a toolchain needs a checksum database", key).
			Advise("unset GOSUMDB, or set it to NAME+KEY URL")
	}
	return checksums{key, strings.TrimSuffix(cmp.Or(strings.TrimSpace(url), "https://"+name), "/"), rt}, nil
}

func (c checksums) toolchain(ctx context.Context, version, platform string) (string, error) {
	ops := &sumOps{key: c.key}
	ops.get = func(path string) ([]byte, error) { return c.get(ctx, path) }
	module := toolchainVersion(version, platform)
	lines, err := sumdb.NewClient(ops).Lookup(toolchainModule, module)
	switch failed := ops.failed.Load(); {
	case err != nil && failed != nil:
		return "", *failed
	case err != nil:
		return "", verdict.Wrap(verdict.LogProof, c.url, err).Advise("do not use this checksum database: its answer for " + toolchainModule + " is not in the tree that it signed")
	}
	for _, line := range lines {
		if sum, is := strings.CutPrefix(line, toolchainModule+" "+module+" "); is {
			return sum, nil
		}
	}
	return "", noToolchain(c.url, module)
}

func noToolchain(url, module string) error {
	return verdict.Refuse(verdict.Usage, url, "the checksum database has no %s@%s", toolchainModule, module).
		Advise("name platforms with --platform for which go.dev/dl has this version of Go, and use a released version")
}

func (c checksums) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "GOSUMDB", err)
	}
	resp, err := transport.Client(c.rt).Do(req)
	if err != nil {
		return nil, unreachable(c.url, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil, noToolchain(c.url, path[strings.LastIndexByte(path, '@')+1:])
	default:
		return nil, unreachable(c.url, fmt.Errorf("the server answered %s", resp.Status))
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxSumDB))
	if err != nil {
		return nil, unreachable(c.url, err)
	}
	return raw, nil
}

// sumOps is what the client of checksum databases needs from the machine: it
// stores nothing.
type sumOps struct {
	key    string
	get    func(path string) ([]byte, error)
	failed atomic.Pointer[error] // why the database did not answer
}

func (o *sumOps) ReadRemote(path string) ([]byte, error) {
	raw, err := o.get(path)
	if err != nil {
		o.failed.Store(&err)
	}
	return raw, err
}

func (o *sumOps) ReadConfig(file string) ([]byte, error) {
	if file == "key" {
		return []byte(o.key), nil
	}
	return nil, nil // no earlier tree
}

func (o *sumOps) WriteConfig(string, []byte, []byte) error { return nil }
func (o *sumOps) ReadCache(string) ([]byte, error)         { return nil, fs.ErrNotExist }
func (o *sumOps) WriteCache(string, []byte)                {}
func (o *sumOps) Log(string)                               {}
func (o *sumOps) SecurityError(string)                     {}
