package tuf

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxRotations is how many new roots one refresh follows.
const maxRotations = 256

// client performs one refresh. Each step verifies one role, first with the
// cache and then with the repository, and replaces unverified bytes of the
// cache with verified ones.
type client struct {
	cfg     Config
	remote  *fetcher // nil: use the cache alone
	trusted *trustedmetadata.TrustedMetadata
	cache   cache
	state   state
	floor   floor
	learned bool // the repository offered something new, and it was verified
	notes   []string
}

// open reads the cache and the initial root.
func open(cfg Config, ca cache) (*client, error) {
	c := &client{cfg: cfg, cache: ca}
	if cfg.Transport != nil {
		c.remote = &fetcher{client: transport.Client(cfg.Transport), base: cfg.URL, patience: cfg.Patience}
	}
	var err error
	if c.state, c.floor, c.notes, err = ca.read(cfg.URL); err != nil {
		return nil, err
	}
	return c, c.begin()
}

// begin trusts the initial root, and checks the evaluation time.
func (c *client) begin() error {
	err := judge(metadata.ROOT, c.cfg.Root, func(raw []byte) (err error) {
		c.trusted, err = trustedmetadata.New(raw)
		return err
	})
	if err != nil {
		return refusal("the initial root", err)
	}
	c.trusted.RefTime = c.cfg.Now.UTC()
	earliest := c.cfg.earliest()
	if c.floor.Proven.After(earliest) {
		earliest = c.floor.Proven
	}
	if c.cfg.Now.Add(skew).Before(earliest) {
		return &verdict.Error{Finding: verdict.Find(verdict.Clock, subject, "the evaluation time is earlier than metadata that was already signed").
			Differ("not before "+earliest.UTC().Format(time.RFC3339), c.cfg.Now.UTC().Format(time.RFC3339))}
	}
	return nil
}

// refresh is the client workflow. Verified metadata is stored even if a later
// step fails; otherwise the next refresh could be rolled back behind it.
func (c *client) refresh(ctx context.Context) (Targets, error) {
	t, failed := c.update(ctx)
	if failed == nil {
		c.floor.Seen, c.floor.Proven = c.cfg.Now.UTC(), later(c.floor.Proven, c.proven())
		t.refreshed, c.learned = c.floor.Seen, true
	}
	if c.learned && (failed == nil || !c.cache.anew) {
		if err := c.cache.write(ctx, c.state, c.floor); err != nil {
			return Targets{}, errors.Join(failed, err)
		}
	}
	return t, failed
}

// load is the same from the cache alone.
func (c *client) load(ctx context.Context) (Targets, error) {
	t, err := c.update(ctx)
	if err != nil {
		return Targets{}, err
	}
	t.refreshed = c.floor.Seen
	return t, nil
}

func (c *client) update(ctx context.Context) (Targets, error) {
	for _, step := range []func(context.Context) error{c.root, c.timestamp, c.snapshot, c.targets} {
		if err := step(ctx); err != nil {
			return Targets{}, err
		}
	}
	files, err := c.files(ctx)
	if err != nil {
		return Targets{}, err
	}
	return c.describeState(files), nil
}

// describeState describes the verified state.
func (c *client) describeState(files map[string][]byte) Targets {
	root, top := c.trusted.Root.Signed, c.trusted.Targets[metadata.TARGETS].Signed
	expires := root.Expires
	for _, e := range []time.Time{c.trusted.Timestamp.Signed.Expires, c.trusted.Snapshot.Signed.Expires, top.Expires} {
		if e.Before(expires) {
			expires = e
		}
	}
	return Targets{
		files: files, expires: expires, notes: c.notes, state: c.state,
		versions: Versions{
			Root: root.Version, Timestamp: c.trusted.Timestamp.Signed.Version,
			Snapshot: c.trusted.Snapshot.Signed.Version, Targets: top.Version,
		},
	}
}

// root walks from the initial root to the newest, version by version: each is
// signed by the one before it and by itself (5.3). An expired root may lead to
// the next one; the last may not be expired, which the timestamp step checks.
func (c *client) root(ctx context.Context) error {
	for {
		next := c.trusted.Root.Signed.Version + 1
		raw, ok := c.state.Roots[next]
		if !ok {
			break
		}
		if err := c.updateRoot(raw); err != nil {
			c.note("root %d in the cache is damaged: %v", next, err)
			break
		}
	}
	if c.remote != nil {
		if err := c.newRoots(ctx); err != nil {
			return err
		}
	}
	if got := c.trusted.Root.Signed.Version; got < c.cfg.MinRoot {
		return verdict.Refuse(verdict.TUFRollback, subject, "the newest root has version %d, want at least %d", got, c.cfg.MinRoot)
	}
	return c.raiseFloor(metadata.ROOT, c.trusted.Root.Signed.Version)
}

func (c *client) newRoots(ctx context.Context) error {
	for range maxRotations {
		next := c.trusted.Root.Signed.Version + 1
		raw, err := c.remote.get(ctx, maxRoot, strconv.FormatInt(next, 10)+".root.json")
		if errors.Is(err, errNotFound) {
			return nil // the one file that may be missing
		}
		if err != nil {
			return err
		}
		if err := c.updateRoot(raw); err != nil {
			return refusal(metadata.ROOT, err)
		}
		c.state.Roots[next], c.learned = raw, true
	}
	return verdict.Refuse(verdict.Limit, subject, "more than %d new root versions since the last refresh", maxRotations)
}

func (c *client) updateRoot(raw []byte) error {
	return judge(metadata.ROOT, raw, func(raw []byte) error {
		_, err := c.trusted.UpdateRoot(raw)
		return err
	})
}

// timestamp fetches the newest state (5.4). A cached timestamp, even expired,
// is loaded first: the new one may not be older.
func (c *client) timestamp(ctx context.Context) error {
	ask := func(raw []byte) error {
		_, err := c.trusted.UpdateTimestamp(raw)
		return err
	}
	if err := c.verifyCached(metadata.TIMESTAMP, c.state.Timestamp, ask); c.remote == nil {
		if err != nil {
			return err
		}
		return c.raiseFloor(metadata.TIMESTAMP, c.trusted.Timestamp.Signed.Version)
	}
	raw, err := c.remote.get(ctx, maxTimestamp, "timestamp.json")
	if err != nil {
		return absent(metadata.TIMESTAMP, err)
	}
	var (
		same  *metadata.ErrEqualVersionNumber
		older *metadata.ErrBadVersionNumber
	)
	err = judge(metadata.TIMESTAMP, raw, ask)
	switch {
	case errors.As(err, &same):
		return c.raiseFloor(metadata.TIMESTAMP, c.trusted.Timestamp.Signed.Version)
	case errors.As(err, &older):
		return verdict.Wrap(verdict.TUFRollback, subject, fmt.Errorf("timestamp: %w", err))
	case err != nil:
		return refusal(metadata.TIMESTAMP, err)
	}
	if err := c.raiseFloor(metadata.TIMESTAMP, c.trusted.Timestamp.Signed.Version); err != nil {
		return err
	}
	c.state.Timestamp, c.learned = raw, true
	return nil
}

// snapshot fetches the snapshot that the timestamp lists (5.5), unless it is
// cached.
func (c *client) snapshot(ctx context.Context) error {
	promised := c.trusted.Timestamp.Signed.Meta["snapshot.json"]
	if promised == nil {
		return verdict.Refuse(verdict.TUFParse, subject, "the timestamp lists no snapshot")
	}
	ask := func(trusted bool) func([]byte) error {
		return func(raw []byte) error {
			_, err := c.trusted.UpdateSnapshot(raw, trusted)
			return err
		}
	}
	err := c.verifyCached(metadata.SNAPSHOT, c.state.Snapshot, ask(true))
	if err != nil && c.remote != nil {
		err = c.newSnapshot(ctx, promised, ask(false))
	}
	if err != nil {
		return err
	}
	return c.raiseFloor(metadata.SNAPSHOT, c.trusted.Snapshot.Signed.Version)
}

func (c *client) newSnapshot(ctx context.Context, promised *metadata.MetaFiles, ask func([]byte) error) error {
	raw, err := c.remote.get(ctx, limit(promised.Length, maxSnapshot), c.versioned(promised.Version, "snapshot.json"))
	if err != nil {
		return absent(metadata.SNAPSHOT, err)
	}
	before := c.trusted.Snapshot
	if err := judge(metadata.SNAPSHOT, raw, ask); err != nil {
		var version *metadata.ErrBadVersionNumber
		if errors.As(err, &version) && c.trusted.Snapshot == before { // go-tuf kept the previous one
			return verdict.Refuse(verdict.TUFRollback, subject,
				"snapshot %d lists older metadata than snapshot %d", promised.Version, before.Signed.Version)
		}
		return refusal(metadata.SNAPSHOT, err)
	}
	c.state.Snapshot, c.learned = raw, true
	return nil
}

// targets fetches the list of files that the snapshot names (5.6).
func (c *client) targets(ctx context.Context) error {
	if err := c.role(ctx, metadata.TARGETS, metadata.ROOT); err != nil {
		return err
	}
	return c.raiseFloor(metadata.TARGETS, c.trusted.Targets[metadata.TARGETS].Signed.Version)
}

func (c *client) verifyCached(role string, raw []byte, ask func([]byte) error) error {
	if raw == nil {
		return unproven("the cache has no %s: it was never refreshed", role)
	}
	err := judge(role, raw, ask)
	if err == nil {
		return nil
	}
	// Old metadata, and metadata of rotated keys, are not damage.
	if refused := refusal(role, err); verdict.FindingOf("", refused).Code == verdict.TUFParse {
		c.note("%s in the cache is damaged: %v", role, err)
	}
	return unproven("the %s in the cache is not valid: %v", role, err)
}

func (c *client) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// versioned is the name of a file in a repository with consistent snapshots.
func (c *client) versioned(version int64, name string) string {
	if !c.trusted.Root.Signed.ConsistentSnapshot {
		return name
	}
	return strconv.FormatInt(version, 10) + "." + name
}

// limit is the most bytes that a file may have: its listed length, but never
// above a maximum.
func limit(promised, most int64) int64 {
	if promised > 0 && promised < most {
		return promised
	}
	return most
}
