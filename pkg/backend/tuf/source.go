package tuf

import (
	"bytes"
	"context"
	_ "embed" // for GitHub's roots
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// savedSource is the stored form of a [Source].
type savedSource struct {
	URL  string `json:"url"`
	Root []byte `json:"root"`
}

// Remembered returns the source that the cache was initialised with, or
// [PublicGood] if it never was. An unreadable cache is an error: it must not
// fall back to a source that was not chosen.
func Remembered(dir string) (Source, error) {
	var saved savedSource
	err := cache{dir: dir}.unmarshal(sourceFile, &saved)
	if _, is := errors.AsType[*strictjson.Error](err); is {
		return Source{}, verdict.Wrap(verdict.ConfigParse, filepath.Join(dir, sourceFile),
			fmt.Errorf("run waybill trust init again: %w", err))
	}
	if err != nil {
		return Source{}, err
	}
	if saved.URL == "" {
		if err := checkLost(dir); err != nil {
			return Source{}, err
		}
		return PublicGood(), nil
	}
	return Source(saved), nil
}

// checkLost refuses a cache whose source file is missing but whose floor belongs to
// another repository than the public-good one.
func checkLost(dir string) error {
	var f floor
	err := cache{dir: dir}.unmarshal(floorFile, &f)
	if _, is := errors.AsType[*strictjson.Error](err); err != nil && !is {
		return err
	}
	if f.URL == "" || f.URL == PublicGoodURL {
		return nil
	}
	return verdict.Refuse(verdict.ConfigParse, filepath.Join(dir, sourceFile),
		"the file is missing, but the cache was made for %q; run waybill trust init again, with that repository or another", f.URL)
}

// Init refreshes from a source and stores it as the source of the cache. The
// state of another source is deleted. If the refresh fails, nothing changes.
func Init(ctx context.Context, c Config) (Targets, error) {
	if err := c.check(); err != nil {
		return Targets{}, err
	}
	before, err := Remembered(c.Cache)
	same := err == nil && before.URL == c.URL && bytes.Equal(before.Root, c.Root)
	cl, err := open(c, cache{dir: c.Cache, anew: !same})
	if err != nil {
		return Targets{}, err
	}
	t, err := cl.refresh(ctx)
	if err != nil {
		return Targets{}, err
	}
	err = cl.cache.locked(ctx, func(w store.Writer) error {
		return put(ctx, w, sourceFile, savedSource{URL: c.URL, Root: c.Root})
	})
	if err != nil {
		return Targets{}, err
	}
	return t, nil
}

//go:embed github/root.json
var gitHubRoot []byte

//go:embed github/trusted_root.json
var gitHubTrusted []byte

var gitHubName = pattern.Lazy(`\Agithub(?::([a-z0-9-]+))?\z`)

// GitHub is the repository of GitHub's own Sigstore instance, and the target that is
// the trust root of a domain: "github", or "github:TENANT" of Enterprise Cloud.
func GitHub(domain string) (from Source, target string, err error) {
	m := gitHubName().FindStringSubmatch(domain)
	if m == nil {
		return Source{}, "", verdict.Refuse(verdict.Usage, "--trust", "%q: want github or github:TENANT", domain)
	}
	if target = TrustedRootFile; m[1] != "" {
		target = m[1] + "." + target
	}
	return Source{URL: "https://tuf-repo.github.com", Root: gitHubRoot}, target, nil
}

// EmbeddedGitHub is the embedded root of that instance, and the day of its page.
func EmbeddedGitHub() (trust.Root, time.Time) {
	root, err := trust.Parse(gitHubTrusted)
	if err != nil {
		panic(fmt.Sprintf("tuf: the embedded root of GitHub: %v", err))
	}
	return root, time.Date(2026, time.June, 29, 0, 0, 0, 0, time.UTC)
}
