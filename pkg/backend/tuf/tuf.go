// Package tuf fetches trust roots through The Update Framework, and keeps what
// it has seen.
//
//	t, err := tuf.Refresh(ctx, tuf.Config{
//		URL: source.URL, Root: source.Root, // see [Remembered]
//		Cache: dir, Now: now, Transport: rt,
//	})
//	root, err := trust.Parse(t.TrustedRoot())
//
// [Refresh] follows the client workflow of the TUF specification (5.3 to 5.7)
// step by step; go-tuf judges every signature, hash, version and expiry, at the
// time that the caller names. [Load] does the same with the cache alone. What
// is added to go-tuf's own client, and why that client is not used:
//
//   - A cache is two files, each written whole or not at all, and nothing in
//     it is believed: every load starts from the initial root and verifies
//     again. go-tuf's client writes each role by itself, under names that the
//     repository chooses, and without a cache it looks in the working
//     directory.
//   - A floor, apart from the metadata: the highest version of each role seen,
//     so that a cache that was damaged, deleted in part or put back is noticed.
//     The floor of a role falls with the keys that could have set it too high,
//     as the specification's recovery from fast-forward attacks asks (5.3.11).
//   - A time before the newest timestamp was signed, as far as the repository
//     says how long its timestamps are valid, or before the date of the root
//     that this program carries, is refused as CLOCK: a clock that was turned
//     back makes replayed metadata look fresh. A time of judgement in the future
//     proves nothing and is not held against later ones.
//   - Every failure has a code. A repository that does not answer is
//     unavailable; it is never a reason to use what was fetched before.
//
// Two processes may share a cache. Whoever saw more wins; nobody waits for
// another's network. What is proven before a refresh fails is remembered.
//
// Whoever deletes the whole cache directory deletes the floor: what remains is
// the version of the initial root, the expiry of the metadata, and the floor
// that the caller names itself, see [Config.MinRoot].
package tuf

import (
	"context"
	"net/http"
	"time"

	sigstore "github.com/sigstore/sigstore-go/pkg/tuf"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The targets that a Sigstore repository publishes for clients.
const (
	TrustedRootFile   = "trusted_root.json"
	SigningConfigFile = "signing_config.v0.2.json"
)

// PublicGoodURL is the repository of the public-good instance.
const PublicGoodURL = sigstore.DefaultMirror

// skew is how far a clock may be behind what was proven before it is wrong.
const skew = 5 * time.Minute

// Source is a repository and the root metadata from which it is believed.
type Source struct {
	URL  string
	Root []byte // initial root metadata, of any version
}

// PublicGood is the repository of the public-good instance, with the initial
// root that this program carries.
func PublicGood() Source { return Source{URL: PublicGoodURL, Root: sigstore.DefaultRoot()} }

// StagingURL is the repository of the staging instance.
const StagingURL = sigstore.StagingMirror

// Staging is the repository of the staging instance, with the initial root that
// this program carries. Whoever can sign there proves nothing to others.
func Staging() Source { return Source{URL: StagingURL, Root: sigstore.StagingRoot()} }

// Config says what to refresh, from where, and as of when.
type Config struct {
	// URL is the repository: https, or http on loopback.
	URL string
	// Root is the initial root metadata. Its version is a floor.
	Root []byte
	// MinRoot is a floor that outlives the cache: the least version of the root
	// metadata that will do. Zero sets none.
	MinRoot int64
	// Cache is a directory, made if need be. Empty means none: nothing is
	// remembered, and every refresh begins at Root.
	Cache string
	// Now is the time of judgement. Required.
	Now time.Time
	// Transport reaches the repository; [Load] needs none. Its timeouts hold,
	// and so do the redirect rules of package transport.
	Transport http.RoundTripper
	// Patience is how long one file may take as a whole; default one minute.
	Patience time.Duration
	// Files are the targets to fetch, all of them required. Default the
	// trusted root, and the signing configuration if there is one.
	Files []string
}

// Targets are files that a repository vouches for. The zero value has none.
type Targets struct {
	files     map[string][]byte
	versions  Versions
	expires   time.Time
	refreshed time.Time
	notes     []string
}

// Versions are those of the metadata in use.
type Versions struct {
	Root      int64 `json:"root"`
	Timestamp int64 `json:"timestamp"`
	Snapshot  int64 `json:"snapshot"`
	Targets   int64 `json:"targets"`
}

// TrustedRoot is the trusted_root.json, nil if it was not asked for.
func (t Targets) TrustedRoot() []byte { return t.File(TrustedRootFile) }

// File is the target of that name, nil if it was not asked for.
func (t Targets) File(name string) []byte { return append([]byte(nil), t.files[name]...) }

// Versions are those of the metadata that vouch for the files.
func (t Targets) Versions() Versions { return t.versions }

// Expires is when the first of the metadata does.
func (t Targets) Expires() time.Time { return t.expires }

// Refreshed is the time of judgement of the last refresh that succeeded.
func (t Targets) Refreshed() time.Time { return t.refreshed }

// Notes say what was wrong with the cache and was mended, for the log.
func (t Targets) Notes() []string { return t.notes }

// Refresh asks the repository for its newest state and returns its files. On
// an error nothing is returned, whatever the cache holds.
func Refresh(ctx context.Context, c Config) (Targets, error) {
	if err := c.check(); err != nil {
		return Targets{}, err
	}
	if c.Transport == nil {
		return Targets{}, verdict.Refuse(verdict.InternalBug, "trust root", "a refresh needs a transport")
	}
	cl, err := open(c, cache{dir: c.Cache})
	if err != nil {
		return Targets{}, err
	}
	return cl.refresh(ctx)
}

// fresh is how long a refresh is worth: within it, [Current] asks nobody.
const fresh = 24 * time.Hour

// Current returns the files of the last refresh where it is less than a day
// old, not of the future, and still valid, and else refreshes. It never steps back: where a refresh
// is due and fails, that is the answer, whatever the cache holds.
func Current(ctx context.Context, c Config) (Targets, error) {
	t, err := Load(ctx, c)
	age := c.Now.Sub(t.Refreshed())
	if err == nil && age >= -skew && age < fresh {
		return t, nil
	}
	if err != nil && verdict.FindingOf("", err).Code == verdict.Clock {
		return Targets{}, err
	}
	return Refresh(ctx, c)
}

// Load returns the files of the last refresh, if they are still valid, and
// asks nobody. What it cannot prove is unavailable.
func Load(ctx context.Context, c Config) (Targets, error) {
	c.Transport = nil
	if err := c.check(); err != nil {
		return Targets{}, err
	}
	cl, err := open(c, cache{dir: c.Cache})
	if err != nil {
		return Targets{}, err
	}
	return cl.load(ctx)
}

func (c *Config) check() error {
	if c.Now.IsZero() {
		return verdict.Refuse(verdict.InternalBug, "trust root", "no time of judgement was given")
	}
	if c.MinRoot < 0 {
		return verdict.Refuse(verdict.Usage, "trust root", "the least version of the root is %d", c.MinRoot)
	}
	if c.Patience <= 0 {
		c.Patience = time.Minute
	}
	return CheckURL(c.URL)
}

// earliest is the time before which no clock can be right for this repository:
// the public-good root that this program carries was current then.
func (c *Config) earliest() time.Time {
	if c.URL == PublicGoodURL {
		return trust.Embedded().Date()
	}
	return time.Time{}
}
