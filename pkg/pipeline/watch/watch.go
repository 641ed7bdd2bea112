// Package watch follows Rekor v2 logs, and reports every entry by an identity of the policy
// that no release or record explains: Config{Gate: g, State: "watch"}.Once(ctx, now).
//
// Other projects should not import this package: it changes without notice.
package watch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tiles"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Config says what is watched.
type Config struct {
	Gate      gate.Gate
	Transport http.RoundTripper
	Logs      []string      // addresses; none means the logs of the trust root that are valid now
	State     string        // directory for what is remembered between two passes
	From      int64         // entry where the first pass over a log begins; negative is its end
	Stalled   time.Duration // how long a log may be without a new entry; 0 is for ever
	Explained Sources
}

// Sources are what explains entries: versions, verified where they are published; directories
// with bundles and state of releases, which are trusted; alarms dealt with, as LOG/INDEX.
type Sources struct{ Versions, Dirs, Handled []string }

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
	partial  bool            // one of them could not be read
	known    map[string]bool // what is explained: LOG/INDEX, and contents
}

// perBatch is how many tiles of entries are proven before the cursor is written.
const perBatch, cursorSuffix = 64, ".cursor.json"

// Once makes a pass.
func (c Config) Once(ctx context.Context, now time.Time) *verdict.Verdict {
	p := c.Gate.Profile()
	r := &run{Config: c, now: now, ours: watched.By(p.Policy, c.Gate.Verifier()), known: map[string]bool{}, v: verdict.NewCheck("log entries of policy "+p.Policy.Name(), now)}
	r.v.Policy, r.v.TrustRoot = p.Policy.Digest(), p.TrustRoot.Digest()
	for _, a := range p.TrustRoot.Authorities() {
		if len(c.Logs) == 0 && a.Kind == trust.TransparencyLog && a.ValidAt(now) {
			r.Logs = append(r.Logs, a.URI)
		}
	}
	files, _ := filepath.Glob(filepath.Join(c.State, "*"+cursorSuffix)) // the pattern is valid
	for _, address := range r.Logs {
		id, err := r.follow(ctx, address)
		r.v.AddError(address, err)
		files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == id+cursorSuffix })
	}
	for _, f := range files {
		r.v.Add(verdict.Find(watched.Stalled, f, "the log was followed before, and no address answered for it"))
		c, err := r.read(strings.TrimSuffix(filepath.Base(f), cursorSuffix))
		if err == nil {
			err = r.judge(ctx, &c)
		}
		r.v.AddError(f, err)
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
	c, err := r.read(id)
	if err != nil {
		return id, err
	}
	hashes := log.Hashes(ctx, tlog.Tree{N: size, Hash: tlog.Hash(root)})
	if c.Checkpoint == "" {
		if c.Next = r.From; r.From < 0 || r.From > size {
			c.Next = size
		}
		c.Checkpoint, c.Grown = string(raw), r.now
	}
	found := watched.Contradiction{Log: id, First: c.Checkpoint, Second: string(raw), Seen: r.now.UTC()}
	grown, err := found.Compare(r.Gate.Verifier(), hashes)
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
	for c.Next < size && err == nil {
		if err = r.scan(ctx, log, hashes, &c, min((c.Next/tiles.Width+perBatch)*tiles.Width, size)); err == nil {
			err = r.write(ctx, id+cursorSuffix, c)
		}
	}
	return id, errors.Join(err, r.judge(ctx, &c))
}

// read reads what is remembered about a log.
func (r *run) read(id string) (cursor, error) {
	c := cursor{}
	old, err := os.ReadFile(filepath.Join(r.State, id+cursorSuffix))
	if err == nil {
		err = json.Unmarshal(old, &c)
	}
	if c.Log = id; err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, verdict.Wrap(verdict.ConfigParse, id+cursorSuffix, err)
	}
	return c, nil
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

// judge reports the entries that are not explained, and writes the cursor. Sources are read
// after the checkpoint: what a release had logged by then is in its journal.
func (r *run) judge(ctx context.Context, c *cursor) error {
	r.verify(ctx)
	for _, dir := range r.Explained.Dirs {
		if err := filepath.WalkDir(dir, r.readFile); err != nil {
			return verdict.Wrap(verdict.PlaceDown, dir, err)
		}
	}
	for _, e := range c.Open {
		r.known[e.Content] = r.known[e.Content] || r.known[e.Name]
	}
	c.Open = slices.DeleteFunc(c.Open, func(e open) bool { return r.known[e.Content] || slices.Contains(r.Explained.Handled, e.Name) })
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

// verify verifies the releases, once in a pass. What proves an accepted one is explained.
func (r *run) verify(ctx context.Context) {
	for ; r.verified < len(r.Explained.Versions); r.verified++ {
		v, err := r.Gate.Verify(ctx, r.Explained.Versions[r.verified])
		if err == nil {
			err = v.Err()
		}
		if err != nil {
			f := verdict.FindingOf("release", err)
			f.Subject = r.Explained.Versions[r.verified] + ": " + f.Subject
			r.v.Add(f)
			r.partial = r.partial || f.Code.Outcome() == verdict.Unavailable
			continue
		}
		for _, p := range v.Proofs {
			r.known[fmt.Sprintf("%s/%d", p.Log, p.LogIndex)] = true
		}
		for _, x := range v.VEX {
			r.known[x.Entry] = true
		}
	}
}

// readFile reads a file that explains what was signed: a bundle, or a journal of signatures,
// which a run writes before the log has them.
func (r *run) readFile(path string, d fs.DirEntry, err error) error {
	if err != nil || !d.Type().IsRegular() {
		return err
	}
	if filepath.Base(path) == "signatures.jsonl" {
		entries, err := journal.Read(path)
		for _, e := range entries { // "builder statement sha256:…"
			_, content, is := strings.Cut(e.Subject, " sha256:")
			r.known[content] = is
		}
		return err
	}
	if info, err := d.Info(); err != nil || info.Size() > verify.MaxBundle || !strings.HasSuffix(path, ".json") && filepath.Base(filepath.Dir(path)) != "sha256" {
		return err
	}
	raw, err := os.ReadFile(path)
	if said, no := verify.Read(raw); err == nil && no == nil { // not a file of another kind
		sum := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(said.PayloadType), said.PayloadType, len(said.Payload), said.Payload))
		r.known[hex.EncodeToString(sum[:])], r.known[hex.EncodeToString(said.Digest)] = said.IsAttestation(), !said.IsAttestation()
	}
	return err
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
