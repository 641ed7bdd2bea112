// Package watch follows Rekor logs, and reports every entry by an identity of the policy
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
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-release/waybill/pkg/backend/store"
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
	Log        string    `json:"log"`        // of Rekor v1, with the tree
	Address    string    `json:"address"`    // where it was read last
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
const perBatch, maxOpen, cursorSuffix, verdictSuffix = 64, 10_000, ".cursor.json", ".verdict.json"

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
		r.v.AddError("trust root", verdict.Refuse(verdict.PlaceDown, "trust root", "it has no log that is valid now, so no log was read").Advise("name each log to follow with --log, or use a newer trust root"))
	}
	files, _ := fs.Glob(os.DirFS(c.State), "*"+cursorSuffix) // the pattern is valid
	down := map[string]bool{}
	for _, address := range r.Logs {
		heads, err := r.heads(ctx, address)
		down[address] = verdict.OutcomeOf(err) == verdict.Unavailable
		r.v.AddError(address, err)
		for _, h := range heads {
			files = slices.DeleteFunc(files, func(f string) bool { return f == h.id()+cursorSuffix })
			r.v.AddError(address, r.follow(ctx, address, h))
		}
	}
	for _, f := range files {
		c, err := r.cursor(strings.TrimSuffix(f, cursorSuffix))
		if !down[c.Address] {
			r.v.Add(verdict.Find(watched.Stalled, filepath.Join(r.State, f), "the log was followed before, and no address answered for it"))
		}
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

// follow reads a tree from where the last pass ended, and judges its open entries.
func (r *run) follow(ctx context.Context, address string, h head) error {
	c, err := r.cursor(h.id())
	if err != nil {
		return err
	}
	kept, end := "", h.N
	if r.Kept != "" {
		k, bad := r.head(r.Kept)
		if bad != nil {
			return bad
		}
		if k.log == h.log && k.origin() == h.origin() {
			kept, end = k.raw, k.N
		}
	}
	if c.Checkpoint == "" {
		if c.Next = max(0, r.From-h.base); r.From < 0 || c.Next > h.N {
			c.Next = min(end, h.N)
		}
		c.Checkpoint, c.Grown = h.raw, r.now
	}
	c.Address = address
	var found watched.Contradiction
	grown := false
	for _, first := range []string{kept, c.Checkpoint} {
		found = watched.Contradiction{Log: h.log, First: cmp.Or(first, c.Checkpoint), Second: h.raw, Seen: r.now.UTC()}
		grown, err = found.Compare(r.Gate.Verifier(), func(a, b tlog.Tree) (tlog.Hash, tlog.TreeProof, error) { return h.prefix(ctx, a, b) })
		if err != nil || found.Code != "" {
			break
		}
	}
	switch {
	case found.Code != "":
		name := h.id() + "." + strings.ToLower(string(found.Code)) + ".json"
		err = verdict.Refuse(found.Code, "log "+h.id(), "the checkpoint contradicts one that the log signed before; the proof is %s in the state directory", name)
		return errors.Join(err, r.write(ctx, name, found), r.judge(ctx, &c))
	case err == nil:
		err = r.Gate.Verifier().Cosigned([]byte(h.raw))
	}
	if err != nil {
		return errors.Join(err, r.judge(ctx, &c))
	}
	if grown {
		c.Checkpoint, c.Grown = h.raw, r.now
	}
	for r.Seen(Seen{h.id(), address, 0, c.Next, h.N, c.Grown}); c.Next < h.N && err == nil; {
		if len(c.Open) >= maxOpen {
			if err = r.explain(ctx, &c); err == nil && len(c.Open) >= maxOpen {
				err = verdict.Refuse(verdict.Limit, "log "+h.id(), "%d entries before entry %d are not explained; no others are read until fewer are", len(c.Open), h.base+c.Next).
					Advise("name what explains them with --release or --releases, or the entries with --handled")
			}
		}
		before := c.Next
		if err == nil {
			err = h.scan(ctx, &c, h.Tree)
		}
		if err == nil {
			err = r.write(ctx, h.id()+cursorSuffix, c)
			r.Seen(Seen{h.id(), address, c.Next - before, c.Next, h.N, c.Grown})
		}
	}
	return errors.Join(err, r.judge(ctx, &c))
}

// cursor reads what is remembered about a tree.
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
