// Package watch follows Rekor v2 logs, and reports every entry by an identity of the policy
// that no release or record explains: Config{Gate: g, State: "watch"}.Once(ctx, now).
//
// Other projects should not import this package: it changes without notice.
package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tiles"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Config says what is watched.
type Config struct {
	Gate      gate.Gate
	Transport http.RoundTripper
	Logs      []string // addresses; none means the logs of the trust root that are valid now
	State     string   // directory for what is remembered between two passes
	Start
	Stalled   time.Duration // how long a log may be without a new entry; 0 is for ever
	Explained Sources
	Told
}

// Start is where the first pass over a log begins.
type Start struct {
	From int64 // the entry; negative is the end of the log, or the entry after Kept
	// Kept is a checkpoint that its log must extend; may be empty.
	Kept string
}

// Told is who learns of a pass besides who gets its verdict.
type Told struct {
	Webhook string     // address that new alarms are posted to; may be empty
	Seen    func(Seen) // learns how far each log was read; may be nil
}

// Seen is how far a log was read. New are the entries read since the last one.
type Seen struct {
	Log, Address    string
	New, Next, Size int64
	Grown           time.Time // when the checkpoint was first seen
}

// cursor is what is remembered about a log, and written as a whole after what it is about.
type cursor struct {
	Log        string    `json:"log"`
	Checkpoint string    `json:"checkpoint"` // the last one, which extended all before it
	Grown      time.Time `json:"grown"`      // when it was first seen
	Next       int64     `json:"next"`       // the first entry that was not read
	Open       []open    `json:"open"`       // not explained yet
}

// open is an entry of ours that is not explained yet.
type open struct {
	watched.Entry
	Name string `json:"name"` // LOG/INDEX
}

// run is one pass over all logs.
type run struct {
	Config
	v        *verdict.Verdict
	now      time.Time
	ours     watched.Identities
	verified int             // how many of the releases
	partial  bool            // one of them, or the profile, could not be read
	known    map[string]bool // what is explained: LOG/INDEX, and contents
}

// perBatch is how many tiles of entries are proven before the cursor is written. While
// maxOpen entries are not explained, no others are read, so that memory stays bounded.
const perBatch, maxOpen, cursorSuffix = 64, 10_000, ".cursor.json"

// Once makes a pass.
func (c Config) Once(ctx context.Context, now time.Time) *verdict.Verdict {
	p := c.Gate.Profile()
	if c.Seen == nil {
		c.Seen = func(Seen) {}
	}
	r := &run{Config: c, now: now, ours: watched.By(p.Policy, c.Gate.Verifier()), known: map[string]bool{}, v: verdict.NewCheck("log entries of policy "+p.Policy.Name(), now)}
	r.v.Policy, r.v.TrustRoot = p.Policy.Digest(), p.TrustRoot.Digest()
	for _, a := range p.TrustRoot.Authorities() {
		if len(c.Logs) == 0 && a.Kind == trust.TransparencyLog && a.ValidAt(now) {
			r.Logs = append(r.Logs, a.URI)
		}
	}
	if len(r.Logs) == 0 {
		r.v.AddError("trust root", verdict.Refuse(verdict.PlaceDown, "trust root", "it has no log that is valid now, so no log was read").Advise("name each Rekor v2 log to follow with --log, or use a newer trust root"))
	}
	files, _ := fs.Glob(os.DirFS(c.State), "*"+cursorSuffix) // the pattern is valid
	for _, address := range r.Logs {
		id, err := r.follow(ctx, address)
		r.v.AddError(address, err)
		files = slices.DeleteFunc(files, func(f string) bool { return f == id+cursorSuffix })
	}
	for _, f := range files {
		r.v.Add(verdict.Find(watched.Stalled, filepath.Join(c.State, f), "the log was followed before, and no address answered for it"))
		c, err := r.cursor(strings.TrimSuffix(f, cursorSuffix))
		if err == nil {
			err = r.judge(ctx, &c)
		}
		r.v.AddError(f, err)
	}
	if c.Webhook != "" {
		r.v.AddError("webhook", r.alarm(ctx))
	}
	if r.v.Counts.Required = len(r.Logs) + len(c.Explained.Versions); len(r.v.Findings) == 0 {
		r.v.Counts.Verified = r.v.Counts.Required
	}
	return r.v
}

// follow reads a log from where the last pass ended, and judges its open entries.
func (r *run) follow(ctx context.Context, address string) (id string, err error) {
	at, err := store.Open(strings.TrimSuffix(address, "/")+"/api/v2/", r.Transport)
	if err != nil {
		return "", err
	}
	log := tiles.Log(func(ctx context.Context, path string) ([]byte, error) {
		return store.Read(ctx, at, path, tiles.MaxTile)
	})
	raw, err := log(ctx, "checkpoint")
	if errors.Is(err, store.ErrNotFound) {
		return "", verdict.Refuse(verdict.PlaceDown, address, "it has no checkpoint, so it is no Rekor v2 log: %v", err).Advise("name each Rekor v2 log to follow with --log; logs of Rekor v1 cannot be followed")
	}
	if err != nil {
		return "", err
	}
	id, size, root, err := r.Gate.Verifier().Checkpoint(raw)
	if err != nil {
		return "", err
	}
	c, err := r.cursor(id)
	if err != nil {
		return id, err
	}
	hashes := log.Hashes(ctx, tlog.Tree{N: size, Hash: tlog.Hash(root)})
	kept, end := "", size
	if log, n, _, bad := r.Gate.Verifier().Checkpoint([]byte(r.Kept)); r.Kept != "" && bad != nil {
		return id, bad
	} else if log == id {
		kept, end = r.Kept, n
	}
	if c.Checkpoint == "" {
		if c.Next = r.From; r.From < 0 || r.From > size {
			c.Next = min(end, size)
		}
		c.Checkpoint, c.Grown = string(raw), r.now
	}
	var found watched.Contradiction
	grown := false
	for _, first := range []string{kept, c.Checkpoint} {
		found = watched.Contradiction{Log: id, First: cmp.Or(first, c.Checkpoint), Second: string(raw), Seen: r.now.UTC()}
		if grown, err = found.Compare(r.Gate.Verifier(), hashes); err != nil || found.Code != "" {
			break
		}
	}
	switch {
	case found.Code != "":
		name := id + "." + strings.ToLower(string(found.Code)) + ".json"
		err = verdict.Refuse(found.Code, "log "+id, "the checkpoint contradicts one that the log signed before; the proof is %s in the state directory", name)
		return id, errors.Join(err, r.write(ctx, name, found), r.judge(ctx, &c))
	case err != nil:
		return id, errors.Join(err, r.judge(ctx, &c))
	case grown:
		c.Checkpoint, c.Grown = string(raw), r.now
	}
	for r.Seen(Seen{id, address, 0, c.Next, size, c.Grown}); c.Next < size && err == nil; {
		if len(c.Open) >= maxOpen {
			if err = r.explain(ctx, &c); err == nil && len(c.Open) >= maxOpen {
				err = verdict.Refuse(verdict.Limit, "log "+id, "%d entries before entry %d are not explained; no others are read until fewer are", len(c.Open), c.Next).
					Advise("name what explains them with --release or --releases, or the entries with --handled")
			}
		}
		before := c.Next
		if err == nil {
			err = r.scan(ctx, log, hashes, &c, min((c.Next/tiles.Width+perBatch)*tiles.Width, size))
		}
		if err == nil {
			err = r.write(ctx, id+cursorSuffix, c)
			r.Seen(Seen{id, address, c.Next - before, c.Next, size, c.Grown})
		}
	}
	return id, errors.Join(err, r.judge(ctx, &c))
}

// cursor reads what is remembered about a log.
func (r *run) cursor(id string) (c cursor, err error) {
	err = r.read(id+cursorSuffix, &c)
	c.Log = id
	return c, err
}

// read reads a file of the state directory, if it is there.
func (r *run) read(name string, value any) error {
	raw, err := os.ReadFile(filepath.Join(r.State, name))
	if err == nil {
		err = json.Unmarshal(raw, value)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return verdict.Wrap(verdict.ConfigParse, name, err)
	}
	return nil
}

// scan reads the entries before end, which the hashes prove, and opens those that are ours.
func (r *run) scan(ctx context.Context, log tiles.Log, hashes tlog.HashReader, c *cursor, end int64) error {
	indexes := make([]int64, end-c.Next)
	for i := range indexes {
		indexes[i] = tlog.StoredHashIndex(0, c.Next+int64(i))
	}
	proven, err := hashes.ReadHashes(indexes)
	if err != nil {
		return err
	}
	var found [perBatch][]open
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8) // tiles in memory
	first := c.Next / tiles.Width
	for tile := first; tile*tiles.Width < end; tile++ {
		group.Go(func() error {
			bodies, err := log.Entries(ctx, tile, int(min(end-tile*tiles.Width, tiles.Width)))
			for i := max(0, c.Next-tile*tiles.Width); i < int64(len(bodies)); i++ {
				n := tile*tiles.Width + i
				e, is, err := r.ours.Entry(bodies[i])
				switch {
				case tlog.RecordHash(bodies[i]) != proven[n-c.Next]:
					return verdict.Refuse(verdict.LogProof, "log", "entry %d is not the one that the checkpoint proves", n)
				case err != nil:
					return err
				case is:
					found[tile-first] = append(found[tile-first], open{e, fmt.Sprintf("%s/%d", c.Log, n)})
				}
			}
			return err
		})
	}
	if err = group.Wait(); err == nil {
		c.Open, c.Next = slices.Concat(c.Open, slices.Concat(found[:]...)), end
	}
	return err
}

// judge reports the entries that are not explained, and writes the cursor.
func (r *run) judge(ctx context.Context, c *cursor) error {
	if err := r.explain(ctx, c); err != nil {
		return err
	}
	for _, e := range c.Open {
		f := verdict.Find(watched.Unexplained, e.Name, "sha256:%s was signed by %s", e.Content, e.Signer)
		if r.partial {
			f = verdict.Find(verdict.PlaceDown, f.Subject, "%s; a release that may explain it cannot be read", f.Message)
		}
		r.v.Add(f)
	}
	r.v.Note("log %s was read to entry %d", c.Log, c.Next)
	if r.Stalled > 0 && r.now.Sub(c.Grown) > r.Stalled {
		r.v.Add(verdict.Find(watched.Stalled, "log "+c.Log, "no new entry since %s", c.Grown.UTC().Format(time.RFC3339)))
	}
	return r.write(ctx, c.Log+cursorSuffix, c)
}

// write replaces a file of the state directory, atomically and durably.
func (r *run) write(ctx context.Context, name string, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	w, err := store.OpenWriter(r.State)
	if err != nil {
		return err
	}
	return w.Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}
