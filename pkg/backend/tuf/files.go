package tuf

import (
	"context"
	"encoding/hex"
	"errors"
	"net/url"
	"path"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxDelegations is how many roles may be consulted for one file.
const maxDelegations = 32

// errNoTarget means that no role lists a file.
var errNoTarget = errors.New("no role lists the file")

// files fetches the requested files that are listed (5.7).
func (c *client) files(ctx context.Context) (map[string][]byte, error) {
	names, optional := c.cfg.Files, ""
	if names == nil {
		names, optional = []string{TrustedRootFile, SigningConfigFile}, SigningConfigFile
	}
	out := map[string][]byte{}
	for _, name := range names {
		listed, err := c.find(ctx, name)
		if errors.Is(err, errNoTarget) && name == optional {
			continue
		}
		if errors.Is(err, errNoTarget) {
			return nil, verdict.Refuse("TUF_TARGET", subject, "the repository does not list %q", name)
		}
		if err != nil {
			return nil, err
		}
		if out[name], err = c.file(ctx, name, listed); err != nil {
			return nil, err
		}
	}
	c.state.Files = out
	return out, nil
}

type delegation struct{ role, parent string }

// find consults the roles in order of appearance, each before its later
// siblings (5.6.7): earlier roles are trusted more. A terminating delegation
// ends the search, even if it does not list the file.
func (c *client) find(ctx context.Context, name string) (*metadata.TargetFiles, error) {
	visit := []delegation{{metadata.TARGETS, metadata.ROOT}}
	asked := map[string]bool{}
	for len(visit) > 0 {
		d := visit[0]
		visit = visit[1:]
		if asked[d.role] {
			continue
		}
		if len(asked) > maxDelegations {
			return nil, verdict.Refuse(verdict.Limit, subject, "more than %d roles would have to be consulted for %q", maxDelegations, name)
		}
		if err := c.role(ctx, d.role, d.parent); err != nil {
			return nil, err
		}
		asked[d.role] = true
		signed := c.trusted.Targets[d.role].Signed
		if listed := signed.Targets[name]; listed != nil {
			return listed, nil
		}
		children, last, err := delegations(signed, d.role, name)
		if err != nil {
			return nil, err
		}
		if last {
			visit = nil
		}
		visit = append(children, visit...)
	}
	return nil, errNoTarget
}

// delegations returns the roles that a role trusts with a file, up to the first
// terminating one.
func delegations(signed metadata.TargetsType, role, name string) (children []delegation, last bool, err error) {
	if signed.Delegations == nil {
		return nil, false, nil
	}
	err = guarded(role, func() error {
		for _, r := range signed.Delegations.GetRolesForTarget(name) {
			children = append(children, delegation{r.Name, role})
			if r.Terminating {
				last = true
				break
			}
		}
		return nil
	})
	return children, last, err
}

// role verifies a role that lists files: from the cache if it matches the
// snapshot, else from the repository. A role is verified again for each
// delegation: two roles can delegate to one of the same name with different
// keys, and a signature by the keys of one does not count for the files of the
// other.
func (c *client) role(ctx context.Context, role, parent string) error {
	promised := c.trusted.Snapshot.Signed.Meta[role+".json"]
	if promised == nil {
		return verdict.Refuse(verdict.TUFParse, subject, "the snapshot lists no role %q", role)
	}
	ask := func(raw []byte) error {
		_, err := c.trusted.UpdateDelegatedTargets(raw, role, parent)
		return err
	}
	err := c.verifyCached(role, c.state.Roles[role], ask)
	if err == nil || c.remote == nil {
		return err
	}
	name := c.versioned(promised.Version, url.PathEscape(role)+".json")
	raw, err := c.remote.get(ctx, limit(promised.Length, maxTargets), name)
	if err != nil {
		return absent(role, err)
	}
	if err := judge(role, raw, ask); err != nil {
		return refusal(role, err)
	}
	c.state.Roles[role], c.learned = raw, true
	return nil
}

// file returns a target whose length and digests match the list.
func (c *client) file(ctx context.Context, name string, listed *metadata.TargetFiles) ([]byte, error) {
	if listed.Length > maxFile {
		return nil, verdict.Refuse(verdict.Limit, subject, "%q has %d bytes, the limit is %d", name, listed.Length, maxFile)
	}
	if raw := c.state.Files[name]; raw != nil && listed.VerifyLengthHashes(raw) == nil {
		return raw, nil
	}
	if c.remote == nil {
		return nil, unproven("the cache has no copy of %q that matches the list", name)
	}
	sum := listed.Hashes["sha256"]
	if sum == nil {
		sum = listed.Hashes["sha512"]
	}
	if sum == nil {
		return nil, verdict.Refuse(verdict.TUFParse, subject, "%q is listed without a SHA-256 or SHA-512 digest", name)
	}
	dir, base := path.Split(name)
	if c.trusted.Root.Signed.ConsistentSnapshot {
		base = hex.EncodeToString(sum) + "." + base
	}
	raw, err := c.remote.get(ctx, limit(listed.Length, maxFile), "targets", dir, base)
	if err != nil {
		return nil, absent(name, err)
	}
	if err := guarded(name, func() error { return listed.VerifyLengthHashes(raw) }); err != nil {
		return nil, refusal(name, err)
	}
	return raw, nil
}
