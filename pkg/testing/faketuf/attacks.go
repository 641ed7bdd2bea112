package faketuf

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// An Attack is what a repository, or somebody between it and a client, does
// after the client has refreshed once; and its twin, in which one fact is left
// as it should be.
type Attack struct {
	Name string
	Code verdict.Code // how the attack is refused; the twin is accepted
	// Prepare changes the repository before the first refresh; may be nil.
	Prepare func(*Repository)
	// Later is how much time passes after the first refresh.
	Later time.Duration
	// Attack and Twin act after it. The old files are those of the version
	// before the one that the client knows.
	Attack, Twin func(r *Repository, old map[string][]byte)
}

const (
	month = 31 * 24 * time.Hour
	year  = 400 * 24 * time.Hour
	// ahead is a version that nobody reaches honestly.
	ahead = 1 << 40
)

// Attacks is the taxonomy of the TUF specification (1.5.2) and of the
// vulnerabilities that its clients had, as rows.
func Attacks() []Attack {
	var all []Attack
	for _, part := range [][]Attack{rollbacks(), freezes(), mixes(), recoveries(), keys(), roots(), shapes(), floods(), absences()} {
		all = append(all, part...)
	}
	return all
}

func publish(r *Repository, _ map[string][]byte) { r.Publish(nil) }

func rollbacks() []Attack {
	return []Attack{
		{Name: "an older timestamp is served", Code: verdict.TUFRollback,
			Attack: func(r *Repository, old map[string][]byte) { r.Serve(old) }, Twin: publish},
		{Name: "a new timestamp promises an older snapshot", Code: verdict.TUFRollback,
			Attack: func(r *Repository, _ map[string][]byte) {
				r.Snapshot.Signed.Version--
				r.Timestamp.Signed.Version++
				r.PublishAs()
			},
			Twin: func(r *Repository, _ map[string][]byte) {
				r.Timestamp.Signed.Version++
				r.PublishAs()
			}},
		{Name: "a new snapshot promises older targets", Code: verdict.TUFRollback,
			Attack: func(r *Repository, _ map[string][]byte) {
				r.Targets.Signed.Version--
				r.Snapshot.Signed.Version++
				r.Timestamp.Signed.Version++
				r.PublishAs()
			},
			Twin: func(r *Repository, _ map[string][]byte) {
				r.Snapshot.Signed.Version++
				r.Timestamp.Signed.Version++
				r.PublishAs()
			}},
	}
}

// freezes let a part of the metadata expire, and renew all the rest.
func freezes() []Attack {
	renew := func(d time.Duration, but string) func(*Repository, map[string][]byte) {
		return func(r *Repository, _ map[string][]byte) {
			for role, expires := range map[string]*time.Time{
				metadata.ROOT: &r.Root.Signed.Expires, metadata.TARGETS: &r.Targets.Signed.Expires,
				metadata.SNAPSHOT: &r.Snapshot.Signed.Expires, metadata.TIMESTAMP: &r.Timestamp.Signed.Expires,
			} {
				if role != but {
					*expires = expires.Add(d)
				}
			}
			if but != metadata.ROOT {
				r.PublishRoot()
			}
			r.Publish(nil)
		}
	}
	all := []Attack{
		{Name: "everything is served as it was", Code: "TUF_EXPIRED", Later: month,
			Attack: func(*Repository, map[string][]byte) {}, Twin: renew(month, "")},
		{Name: "the root has expired", Code: "TUF_EXPIRED", Later: year,
			Attack: renew(year, metadata.ROOT), Twin: renew(year, "")},
	}
	for _, role := range []string{metadata.TIMESTAMP, metadata.SNAPSHOT, metadata.TARGETS} {
		all = append(all, Attack{Name: "the " + role + " has expired", Code: "TUF_EXPIRED", Later: month,
			Attack: renew(month, role), Twin: renew(month, "")})
	}
	return all
}

func mixes() []Attack {
	mix := func(newer, older string) func(*Repository, map[string][]byte) {
		return func(r *Repository, old map[string][]byte) {
			r.Publish(nil)
			r.Put(newer, old[older])
		}
	}
	unhashed := func(wrong int64) func(*Repository, map[string][]byte) {
		return func(r *Repository, _ map[string][]byte) {
			r.Publish(nil)
			served := r.File(strconv.FormatInt(r.Snapshot.Signed.Version, 10) + ".snapshot.json")
			r.Timestamp.Signed.Meta["snapshot.json"] = &metadata.MetaFiles{Version: r.Snapshot.Signed.Version + wrong}
			r.Put(strconv.FormatInt(r.Snapshot.Signed.Version+wrong, 10)+".snapshot.json", served)
			r.PublishTimestamp()
		}
	}
	return []Attack{
		{Name: "an older snapshot under the new name", Code: "TUF_HASH", Attack: mix("3.snapshot.json", "1.snapshot.json"), Twin: publish},
		{Name: "older targets under the new name", Code: "TUF_HASH", Attack: mix("3.targets.json", "1.targets.json"), Twin: publish},
		{Name: "a snapshot of another version than promised", Code: "TUF_VERSION", Attack: unhashed(1), Twin: unhashed(0)},
		{Name: "another file under a listed name", Code: "TUF_HASH",
			Attack: func(r *Repository, _ map[string][]byte) {
				r.Publish(r.edited())
				for path := range r.Files() {
					if bytes.HasPrefix([]byte(path), []byte("targets/")) {
						r.Put(path, []byte("old"))
					}
				}
			},
			Twin: func(r *Repository, _ map[string][]byte) {
				r.Publish(r.edited())
			}},
	}
}

// recoveries come back from versions that were set too high. That is a step
// back, and allowed only with new keys in the roles that could have done it.
func recoveries() []Attack {
	one := func(role string, version func(*Repository) *int64, rotate ...string) Attack {
		back := func(r *Repository) {
			*version(r) = 3
			r.Publish(nil)
		}
		return Attack{
			Name: "a " + role + " was far ahead", Code: verdict.TUFRollback,
			Prepare: func(r *Repository) { *version(r) = ahead },
			Attack:  func(r *Repository, _ map[string][]byte) { back(r) },
			Twin: func(r *Repository, _ map[string][]byte) {
				for _, other := range rotate {
					r.Rotate(other)
				}
				back(r)
			},
		}
	}
	return []Attack{
		one(metadata.TIMESTAMP, func(r *Repository) *int64 { return &r.Timestamp.Signed.Version }, metadata.TIMESTAMP),
		one(metadata.SNAPSHOT, func(r *Repository) *int64 { return &r.Snapshot.Signed.Version }, metadata.TIMESTAMP, metadata.SNAPSHOT),
		one(metadata.TARGETS, func(r *Repository) *int64 { return &r.Targets.Signed.Version }, metadata.SNAPSHOT),
	}
}

func keys() []Attack {
	two := func(r *Repository) {
		r.AddKey(metadata.TIMESTAMP)
		r.Root.Signed.Roles[metadata.TIMESTAMP].Threshold = 2
		r.PublishRoot()
	}
	all := []Attack{
		{Name: "a role that needs no signature", Code: "TUF_THRESHOLD",
			Attack: func(r *Repository, _ map[string][]byte) {
				r.Root.Signed.Roles[metadata.TARGETS].Threshold = 0
				r.PublishRoot()
			},
			Twin: func(r *Repository, _ map[string][]byte) {
				r.Root.Signed.Roles[metadata.TARGETS].Threshold = 1
				r.PublishRoot()
			}},
		{Name: "one of two signatures", Code: "TUF_THRESHOLD",
			Attack: func(r *Repository, _ map[string][]byte) {
				two(r)
				r.Quit(metadata.TIMESTAMP)
				r.Publish(nil)
			},
			Twin: func(r *Repository, _ map[string][]byte) {
				two(r)
				r.Publish(nil)
			}},
		{Name: "one key under two identifiers", Code: "TUF_THRESHOLD",
			Attack: func(r *Repository, _ map[string][]byte) { twice(r) },
			Twin: func(r *Repository, _ map[string][]byte) {
				two(r)
				r.Publish(nil)
			}},
	}
	for _, role := range []string{metadata.TIMESTAMP, metadata.SNAPSHOT, metadata.TARGETS} {
		all = append(all, Attack{Name: "a stranger signs the " + role, Code: "TUF_THRESHOLD",
			Attack: func(r *Repository, _ map[string][]byte) {
				r.Forge(role)
				r.Publish(nil)
			},
			Twin: func(r *Repository, _ map[string][]byte) {
				r.Rotate(role)
				r.Publish(nil)
			}})
	}
	return all
}

// twice lists the timestamp's one key a second time and lets it sign for both.
func twice(r *Repository) {
	role := r.Root.Signed.Roles[metadata.TIMESTAMP]
	r.Root.Signed.Keys["again"] = r.Root.Signed.Keys[role.KeyIDs[0]]
	role.KeyIDs, role.Threshold = append(role.KeyIDs, "again"), 2
	r.PublishRoot()
	r.Publish(nil)
	r.Timestamp.Signatures = append(r.Timestamp.Signatures,
		metadata.Signature{KeyID: "again", Signature: r.Timestamp.Signatures[0].Signature})
	raw, err := r.Timestamp.ToBytes(false)
	r.must(err)
	r.Put("timestamp.json", raw)
}

func roots() []Attack {
	return []Attack{
		{Name: "a root that skips one version", Code: "TUF_VERSION",
			Attack: func(r *Repository, _ map[string][]byte) {
				r.PublishRoot()
				r.PublishRoot()
				r.Put("2.root.json", r.File("3.root.json"))
			},
			Twin: func(r *Repository, _ map[string][]byte) {
				r.PublishRoot()
				r.PublishRoot()
			}},
		{Name: "a root that the one before did not sign", Code: "TUF_THRESHOLD",
			Attack: func(r *Repository, _ map[string][]byte) {
				r.Forge(metadata.ROOT)
				r.PublishRoot()
			},
			Twin: func(r *Repository, _ map[string][]byte) {
				r.Rotate(metadata.ROOT)
				r.Rotate(metadata.ROOT)
				r.Rotate(metadata.ROOT)
				r.Publish(nil)
			}},
	}
}

func shapes() []Attack {
	served := func(change func(raw []byte) []byte) func(*Repository, map[string][]byte) {
		return func(r *Repository, _ map[string][]byte) {
			r.Publish(nil)
			r.Put("timestamp.json", change(r.File("timestamp.json")))
		}
	}
	return []Attack{
		{Name: "half a timestamp", Code: verdict.TUFParse, Twin: publish,
			Attack: served(func(raw []byte) []byte { return raw[:len(raw)/2] })},
		{Name: "a timestamp that says a thing twice", Code: verdict.TUFParse, Twin: publish,
			Attack: served(func(raw []byte) []byte { return bytes.Replace(raw, []byte("{"), []byte(`{"signed":{},`), 1) })},
		{Name: "a page instead of a timestamp", Code: verdict.TUFParse, Twin: publish,
			Attack: served(func([]byte) []byte { return []byte("<html>welcome to our hotel</html>") })},
		{Name: "a snapshot instead of a timestamp", Code: verdict.TUFParse, Twin: publish,
			Attack: func(r *Repository, old map[string][]byte) { r.Put("timestamp.json", old["1.snapshot.json"]) }},
		{Name: "a signed timestamp that promises nothing", Code: verdict.TUFParse, Twin: publish,
			Attack: func(r *Repository, _ map[string][]byte) {
				r.Timestamp.Signed.Version++
				delete(r.Timestamp.Signed.Meta, "snapshot.json")
				r.PublishTimestamp()
			}},
		{Name: "a file that is listed no more", Code: "TUF_TARGET", Twin: publish,
			Attack: func(r *Repository, _ map[string][]byte) {
				delete(r.Targets.Signed.Targets, "trusted_root.json")
				r.Publish(nil)
			}},
		{Name: "a delegation that ends before the file is found", Code: "TUF_TARGET",
			Attack: func(r *Repository, _ map[string][]byte) { delegate(r, true) },
			Twin:   func(r *Repository, _ map[string][]byte) { delegate(r, false) }},
		{Name: "a role of two parents, with the key of one", Code: "TUF_THRESHOLD",
			Attack: func(r *Repository, _ map[string][]byte) { r.shared(1) },
			Twin:   func(r *Repository, _ map[string][]byte) { r.shared(2) }},
	}
}

// shared moves the file to a role that two roles delegate to, each with a key
// of its own: the first for the file, the second for another one. The shared
// role is signed by some of the two keys.
func (r *Repository) shared(signers int) {
	delete(r.Targets.Signed.Targets, "trusted_root.json")
	both := r.edited()
	both["signing_config.json"] = []byte("a signing configuration")
	names, patterns := []string{"first", "second"}, []string{"trusted_root.*", "signing_config.*"}
	top := &metadata.Delegations{Keys: map[string]*metadata.Key{}}
	var keys []signature.Signer
	for i, name := range names {
		parent, key := metadata.Targets(r.Targets.Signed.Expires), r.newSigner()
		parent.Signed.Delegations = &metadata.Delegations{Keys: map[string]*metadata.Key{}}
		r.delegateTo(parent.Signed.Delegations, metadata.DelegatedRole{Name: "shared", Paths: patterns[i : i+1]}, key)
		r.delegateTo(top, metadata.DelegatedRole{Name: name, Paths: patterns[i : i+1]}, r.signers[metadata.TARGETS][0])
		r.promise(name, parent, r.signers[metadata.TARGETS])
		keys = append(keys, key)
	}
	r.Targets.Signed.Delegations = top
	r.promise("shared", r.listing(both), keys[:signers])
	r.Publish(nil)
}

// delegate moves the file to the second of two roles that may list it.
func delegate(r *Repository, terminating bool) {
	delete(r.Targets.Signed.Targets, "trusted_root.json")
	r.Delegate("first", []string{"trusted_root.*"}, terminating, nil)
	r.Delegate("second", []string{"*.json"}, false, r.edited())
	r.Publish(nil)
}

func floods() []Attack {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for chunk := bytes.Repeat([]byte(" "), 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	all := []Attack{{Name: "a root of 600 kB", Code: verdict.Limit,
		Attack: func(r *Repository, _ map[string][]byte) {
			r.PublishRoot()
			r.Put("2.root.json", append(r.File("2.root.json"), bytes.Repeat([]byte(" "), 600_000)...))
		},
		Twin: func(r *Repository, _ map[string][]byte) { r.PublishRoot() }}}
	for _, path := range []string{"2.root.json", "timestamp.json", "3.snapshot.json", "3.targets.json"} {
		all = append(all, Attack{Name: "endless data as " + path, Code: verdict.Limit,
			Attack: func(r *Repository, _ map[string][]byte) {
				r.Publish(nil)
				r.Answer(path, endless)
			}, Twin: publish})
	}
	return all
}

func absences() []Attack {
	var all []Attack
	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError, http.StatusForbidden} {
		for _, path := range []string{"timestamp.json", "3.snapshot.json", "3.targets.json"} {
			all = append(all, Attack{Name: "status " + strconv.Itoa(status) + " for " + path, Code: verdict.TrustDown,
				Attack: func(r *Repository, _ map[string][]byte) {
					r.Publish(nil)
					r.Answer(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
				}, Twin: publish})
		}
	}
	return append(all, Attack{Name: "status 500 for the next root", Code: verdict.TrustDown,
		Attack: func(r *Repository, _ map[string][]byte) {
			r.Answer("2.root.json", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		}, Twin: publish})
}

// Trusted is a state that a client accepts: a first refresh finds it, at
// version 2, with version 1 before it.
func (a Attack) Trusted(r *Repository, root []byte) (old map[string][]byte) {
	old = r.Files()
	if a.Prepare != nil {
		a.Prepare(r)
	}
	r.trusted = root
	r.Publish(map[string][]byte{"trusted_root.json": root})
	return old
}

// edited is the trusted root with other bytes and the same meaning.
func (r *Repository) edited() map[string][]byte {
	return map[string][]byte{"trusted_root.json": append([]byte("\n"), r.trusted...)}
}
