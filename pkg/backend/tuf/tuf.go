// Package tuf fetches trust roots through The Update Framework, and caches
// them.
//
//	t, err := tuf.Refresh(ctx, tuf.Config{
//		URL: source.URL, Root: source.Root, // see [Remembered]
//		Cache: dir, Now: now, Transport: rt,
//	})
//	root, err := trust.Parse(t.TrustedRoot())
//
// [Refresh] follows the client workflow of the TUF specification (5.3 to 5.7)
// step by step; go-tuf verifies every signature, hash, version and expiry, at
// the time that the caller gives. [Load] does the same with the cache alone.
// Differences from go-tuf's own client, which is not used:
//
//   - A cache is two files, each written atomically, and not trusted: every
//     load starts from the initial root and verifies everything again. go-tuf's
//     client writes each role separately, under names that the repository
//     chooses, and without a cache it reads the working directory.
//   - A floor, apart from the metadata: the highest version of each role seen,
//     which reveals a cache that was damaged, partly deleted or rolled back.
//     The floor of a role is dropped when its keys are replaced, as the
//     specification requires to recover from fast-forward attacks (5.3.11).
//   - An evaluation time before the newest timestamp was signed (if the
//     repository declares how long its timestamps are valid), or before the
//     date of the embedded root, is refused as CLOCK: a clock set back makes
//     replayed metadata look fresh. An evaluation time in the future proves
//     nothing and does not restrict later ones.
//   - Every failure has a code. A repository that does not answer is
//     unavailable, and never a reason to use older files instead.
//
// Two processes may share a cache: the one that saw more wins, and neither
// waits for the other's network. Metadata verified before a refresh fails is
// stored.
//
// Deleting the whole cache directory deletes the floor. What remains is the
// version of the initial root, the expiry of the metadata, and the floor that
// the caller names itself, see [Config.MinRoot].
//
// Other projects should not import this package: it changes without notice.
package tuf

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	sigstore "github.com/sigstore/sigstore-go/pkg/tuf"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The targets that a Sigstore repository publishes for clients.
const (
	TrustedRootFile   = "trusted_root.json"
	SigningConfigFile = "signing_config.v0.2.json"
)

// PublicGoodURL is the repository of the public-good instance.
const PublicGoodURL = sigstore.DefaultMirror

// skew is how far a clock may be behind the proven time.
const skew = 5 * time.Minute

// Source is a repository and the initial root metadata to trust.
type Source struct {
	URL  string
	Root []byte // initial root metadata, of any version
}

// PublicGood is the repository of the public-good instance, with the embedded
// initial root.
func PublicGood() Source { return Source{URL: PublicGoodURL, Root: sigstore.DefaultRoot()} }

// stagingURL is the repository of the staging instance.
const stagingURL = sigstore.StagingMirror

// Staging is the repository of the staging instance, with the embedded initial
// root. Its signatures prove nothing to others.
func Staging() Source { return Source{URL: stagingURL, Root: sigstore.StagingRoot()} }

// Config says what to refresh, from where, and for which time.
type Config struct {
	// URL is the repository: https, or http on loopback.
	URL string
	// Root is the initial root metadata. Its version is a floor.
	Root []byte
	// MinRoot is a floor that does not depend on the cache: the lowest
	// acceptable version of the root metadata. Zero sets none.
	MinRoot int64
	// Cache is a directory, created if needed. Empty means none: nothing is
	// stored, and every refresh begins at Root.
	Cache string
	// Now is the evaluation time. Required.
	Now time.Time
	// Transport reaches the repository; [Load] needs none. Its timeouts apply,
	// and so do the redirect rules of package transport.
	Transport http.RoundTripper
	// Patience is how long one file may take in total; default one minute.
	Patience time.Duration
	// Files are the targets to fetch, all of them required. Default: the
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
	state     state
}

// Versions are those of the metadata in use.
type Versions struct {
	Root      int64 `json:"root"`
	Timestamp int64 `json:"timestamp"`
	Snapshot  int64 `json:"snapshot"`
	Targets   int64 `json:"targets"`
}

// TrustedRoot is the trusted_root.json, nil if it was not requested.
func (t Targets) TrustedRoot() []byte { return t.File(TrustedRootFile) }

// File returns the target of that name, nil if it was not requested.
func (t Targets) File(name string) []byte { return append([]byte(nil), t.files[name]...) }

// Versions are the versions of the metadata that list the files.
func (t Targets) Versions() Versions { return t.versions }

// Expires is when the first of the metadata expires.
func (t Targets) Expires() time.Time { return t.expires }

// Refreshed is the evaluation time of the last successful refresh.
func (t Targets) Refreshed() time.Time { return t.refreshed }

// State is the metadata and the files, which [Chained] verifies again elsewhere.
func (t Targets) State() ([]byte, error) { return json.Marshal(t.state) }

// Notes describe damage that was found in the cache and repaired, for the log.
func (t Targets) Notes() []string { return t.notes }

// Refresh fetches the newest state of the repository and returns its files.
// After an error nothing is returned, whatever the cache holds.
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

// fresh is how long [Current] uses the result of a refresh.
const fresh = 24 * time.Hour

// Current returns the files of the last refresh if it is less than a day old,
// not in the future, and still valid; else it refreshes. It never falls back: a
// failed refresh is an error, whatever the cache holds.
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

// Load returns the files of the last refresh from the cache, if they are still
// valid. What it cannot verify is unavailable.
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

// Chained returns the files of a state that came from elsewhere, if signatures lead to
// it from the initial root. The evaluation time is when it was current, as they say, and
// must be within its validity; what the cache saw later is refused as by [Load].
func Chained(ctx context.Context, c Config, raw []byte) (Targets, error) {
	c.Transport = nil
	cl, err := open(c, cache{dir: c.Cache})
	if err != nil {
		return Targets{}, err
	}
	cl.state = state{}
	if err := strictjson.Unmarshal(raw, &cl.state, strictjson.MaxSize(maxState)); err != nil {
		return Targets{}, verdict.Wrap(verdict.TUFParse, subject, err)
	}
	t, err := cl.load(ctx)
	t.refreshed = c.Now
	return t, err
}

func (c *Config) check() error {
	if c.Now.IsZero() {
		return verdict.Refuse(verdict.InternalBug, "trust root", "no evaluation time was given")
	}
	if c.MinRoot < 0 {
		return verdict.Refuse(verdict.Usage, "trust root", "the lowest acceptable version of the root is %d, want 0 or more", c.MinRoot)
	}
	if c.Patience <= 0 {
		c.Patience = time.Minute
	}
	return CheckURL(c.URL)
}

// earliest is a lower bound for a correct clock: the date of the embedded
// public-good root.
func (c *Config) earliest() time.Time {
	if c.URL == PublicGoodURL {
		return trust.Embedded().Date()
	}
	return time.Time{}
}
