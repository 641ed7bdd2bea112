package stories

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/scene"
)

// desk is a scene with the tokens of its people.
type desk struct{ *workshop }

func openDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{&workshop{Scene: open(t)}}
	for _, role := range []string{"policy", "release", "builder"} {
		d.write(t, role+".token", []byte(d.Lab.Token(role)))
	}
	return d
}

// except runs policy except as the officer would, with some flags changed; an
// empty value leaves the flag out.
func (d *desk) except(t *testing.T, changes ...string) scene.Result {
	t.Helper()
	flags := [][2]string{
		{"--profile", "profile.yaml"}, {"--code", "NO_SBOM"}, {"--name", artifact}, {"--subject", sum(artifact).String()},
		{"--reason", "the scanner was down"}, {"--destination", destination}, {"--expires", "72h"},
		{"--output", "x.json"}, {"--identity-token", "policy=policy.token"},
	}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, " ")
		for i := range flags {
			if flags[i][0] == name {
				flags[i][1] = value
			}
		}
	}
	args := []string{"waybill", "policy", "except"}
	for _, f := range flags {
		if f[1] != "" {
			args = append(args, f[0], f[1])
		}
	}
	for _, change := range changes {
		if change == "--confirm" || strings.HasPrefix(change, "--policy ") {
			args = append(args, strings.Fields(change)...)
		}
	}
	return d.Run(t.Context(), args...)
}

const (
	artifact    = "bin/linux/amd64/lantern"
	destination = "https://dl.example.test/lantern/v0.1.0/"
)

func sum(content string) digest.Digest { return digest.Of(digest.SHA256, []byte(content)) }

// TestExcept: a dry run signs nothing; what is signed is verified, and covers
// exactly the finding that it names.
func TestExcept(t *testing.T) {
	d := openDesk(t)
	want(t, d.except(t), 0, "nothing was done", exception.PredicateType, sum(artifact).Hex(), "the scanner was down")
	d.absent(t, "x.json")
	want(t, d.except(t, "--identity-token "), 0, "nothing was done")
	want(t, d.except(t, "--confirm"), 0, "x.json", "read back and verified")
	want(t, d.except(t, "--confirm"), 1, "FILE_CONFLICT")

	x, err := waiver.ParseException(d.evidence(t, "x.json"), d.policy(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name string
		code verdict.Code
		want verdict.Outcome
	}{{artifact, verdict.NoSBOM, verdict.Accepted}, {"LICENSE", verdict.NoSBOM, verdict.Refused}, {artifact, verdict.Unsigned, verdict.Refused}} {
		v := d.judged(t, r.name, r.code, waiver.Case{Exceptions: []waiver.Exception{x}})
		if v.Outcome() != r.want || v.Complete() {
			t.Errorf("%s of %s: %s, notes %q", r.code, r.name, v.Headline(), v.Notes)
		}
	}
	want(t, d.except(t, "--output ", "--confirm"), 0, fmt.Sprintf("NO_SBOM-%.12s%s", sum(artifact).Hex(), exception.Suffix))
}

// TestExceptRefuses: each row changes one thing, and nothing is written.
func TestExceptRefuses(t *testing.T) {
	d := openDesk(t)
	stranger := strings.Replace(string(d.read(t, "policy.yaml")), "policy@", "nobody@", 1)
	d.write(t, "other.yaml", []byte(stranger))
	rows := []struct {
		name, change string
		code         int
		said         string
	}{
		{"the release identity", "--identity-token policy=release.token", 1, "SIGNED_AS_ELSE"},
		{"the builder", "--identity-token policy=builder.token", 1, "SIGNED_AS_ELSE"},
		{"a policy that does not know the officer", "--policy other.yaml", 1, "SIGNED_AS_ELSE"},
		{"the token of another role", "--identity-token release=release.token", 2, "policy=FILE"},
		{"no token", "--identity-token ", 2, "--identity-token"},
		{"tampered bytes", "--code TAMPERED", 1, "NEVER_EXCEPTED"},
		{"bad cryptography", "--code SIG_INVALID", 1, "NEVER_EXCEPTED"},
		{"who signed", "--code IDENTITY", 1, "NEVER_EXCEPTED"},
		{"the policy's own signature", "--code POLICY_SIG", 1, "NEVER_EXCEPTED"},
		{"what was not reached", "--code UNAVAILABLE", 1, "NEVER_EXCEPTED"},
		{"no such code", "--code NO_SUCH_CODE", 1, "NEVER_EXCEPTED"},
		{"every code", "--code *", 1, "NEVER_EXCEPTED"},
		{"too long", "--expires 721h", 2, "--expires"},
		{"for no time", "--expires ", 2, "--expires"},
		{"backwards", "--expires -1h", 2, "--expires"},
		{"no reason", "--reason ", 2, "--reason"},
		{"a reason that hides", "--reason fine\u202e", 1, "PAYLOAD_PARSE"},
		{"no destination", "--destination ", 2, "--destination"},
		{"no name", "--name ", 2, "--name"},
		{"a name that leaves", "--name ../lantern", 1, "PATH"},
		{"every name", "--name *", 1, "PATH"},
		{"no bytes", "--subject ", 2, "--subject"},
		{"a short digest", "--subject sha256:00", 2, "--subject"},
		{"another kind of digest", "--subject " + digest.Of(digest.SHA512, nil).String(), 2, "--subject"},
		{"no profile", "--profile ", 2, "--profile"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			want(t, d.except(t, r.change, "--confirm"), r.code, r.said)
			d.absent(t, "x.json")
		})
	}
	want(t, d.except(t, "--confirm", "--code UNSIGNED"), 0, "verified")
}

// TestExceptionsOfOthers: genuine signatures that make no exception.
func TestExceptionsOfOthers(t *testing.T) {
	d := openDesk(t)
	say := func(change func(*exception.Predicate)) sign.Content {
		p := exception.Predicate{
			Code: verdict.NoSBOM, Reason: "r", Destination: destination, Policy: d.policy(t).Digest(),
			Issued: time.Now().UTC().Truncate(time.Second), Expires: time.Now().UTC().Add(time.Hour).Truncate(time.Second),
		}
		if change != nil {
			change(&p)
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return stating(exception.PredicateType, artifact, raw)
	}
	rows := []struct {
		name, role string
		content    sign.Content
		want       verdict.Code
	}{
		{"as it must be", "policy", say(nil), ""},
		{"by the release identity", "release", say(nil), verdict.IdentityRole},
		{"by the builder", "builder", say(nil), verdict.IdentityRole},
		{"by the verifier", "verifier", say(nil), verdict.IdentityRole},
		{"of a code that is never excepted", "policy", say(func(p *exception.Predicate) { p.Code = verdict.Tampered }), "NEVER_EXCEPTED"},
		{"that lasts", "policy", say(func(p *exception.Predicate) { p.Expires = p.Issued.Add(exception.MaxLife + time.Second) }), verdict.StatementParse},
		{"issued before it was signed", "policy", say(func(p *exception.Predicate) { p.Issued = p.Issued.Add(-61 * time.Minute) }), verdict.StatementParse},
		{"issued for later", "policy", say(func(p *exception.Predicate) {
			p.Issued, p.Expires = p.Issued.Add(61*time.Minute), p.Expires.Add(61*time.Minute)
		}), verdict.StatementParse},
		{"with a field more", "policy", stating(exception.PredicateType, artifact, []byte(`{"force":true}`)), verdict.StatementParse},
		{"that says something else", "policy", stating(knowndefects.PredicateType, artifact, []byte(`{}`)), verdict.PredicateType},
	}
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			name := fmt.Sprintf("%d.json", i)
			d.write(t, name, d.sign(t, r.role, r.content))
			x, err := waiver.ParseException(d.evidence(t, name), d.policy(t))
			if r.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if f := verdict.FindingOf("", err); err == nil || f.Code != r.want {
				t.Errorf("%v, want %s", err, r.want)
			}
			if v := d.judged(t, artifact, verdict.NoSBOM, waiver.Case{Exceptions: []waiver.Exception{x}}); v.Outcome() != verdict.Refused {
				t.Errorf("it sets something aside: %s", v.Headline())
			}
		})
	}
	if _, err := waiver.ParseException(verify.Evidence{}, d.policy(t)); err == nil {
		t.Error("no evidence makes an exception")
	}
}

// TestPolicySign: a numbered policy is signed, pinned, and replaced by a higher
// number only.
func TestPolicySign(t *testing.T) {
	d := openDesk(t)
	plain := string(d.read(t, "policy.yaml"))
	d.writePolicy(t, plain, 0)
	want(t, d.sealPolicy(t, "policy", "--confirm"), 2, "sequence")
	d.writePolicy(t, plain, 4)
	want(t, d.sealPolicy(t, "policy"), 0, "nothing was done", `"sequence": 4`)
	d.absent(t, "policy.yaml.sigstore.json")

	issuer, subject := d.Lab.Identity("policy")
	pin := fmt.Sprintf("policySigner: {issuer: %q, subject: %q, type: email}\npolicyName: lantern-release\npolicySequence: 4\n", issuer, subject)
	d.write(t, "profile.yaml", append(d.read(t, "profile.yaml"), pin...))
	plan := func() scene.Result {
		return d.Run(t.Context(), "waybill", "plan", scene.Version, "--profile", "profile.yaml", "--source", "lantern")
	}
	want(t, plan(), 1, "POLICY_SIG")
	want(t, d.sealPolicy(t, "release", "--confirm"), 1, "SIGNED_AS_ELSE")
	d.absent(t, "policy.yaml.sigstore.json")
	want(t, d.sealPolicy(t, "policy", "--confirm"), 0, "read back and verified")
	want(t, plan(), 0, artifact)

	d.writePolicy(t, plain+"# changed\n", 4)
	want(t, plan(), 1, "POLICY_SIG")
	want(t, d.sealPolicy(t, "policy", "--confirm"), 1, "POLICY_STALE", "higher number")
	d.writePolicy(t, plain+"# changed\n", 3)
	want(t, d.sealPolicy(t, "policy", "--confirm"), 1, "POLICY_STALE")
	d.writePolicy(t, plain+"# changed\n", 5)
	want(t, d.sealPolicy(t, "policy", "--confirm"), 0, "read back and verified")
	want(t, plan(), 0, artifact)

	d.write(t, "policy.yaml.sigstore.json", []byte("{}"))
	want(t, d.sealPolicy(t, "policy", "--confirm"), 1, "FILE_CONFLICT")
	want(t, d.Run(t.Context(), "waybill", "policy", "sign", "profile.yaml", "--profile", "profile.yaml"), 2, "kind Policy, KnownDefects, ExpectedRelease or Declaration")
	want(t, d.Run(t.Context(), "waybill", "policy", "sign", "nowhere.yaml", "--profile", "profile.yaml"), 2, "nowhere.yaml")
}

// TestDefectsSign: what the officer signs sets aside what a user accepts; what
// anybody else signs is no list at all.
func TestDefectsSign(t *testing.T) {
	d := openDesk(t)
	list := fmt.Sprintf(`apiVersion: waybill/v1
kind: KnownDefects
name: lantern
sequence: 1
issued: %q
expires: %q
defects:
- {id: late, versions: {list: [v0.1.0]}, artifacts: [%s], code: NO_SBOM, explanation: it came late, source: "https://issues.example.test/7"}
`, time.Now().UTC().Add(-time.Hour).Format(time.RFC3339), time.Now().UTC().Add(24*time.Hour).Format(time.RFC3339), artifact)
	d.write(t, "defects.yaml", []byte(list))
	run := func(role string) scene.Result {
		return d.Run(t.Context(), "waybill", "policy", "sign", "defects.yaml", "--profile", "profile.yaml", "--identity-token", "policy="+role+".token", "--confirm")
	}
	want(t, run("release"), 1, "SIGNED_AS_ELSE")
	d.absent(t, "defects.yaml.sigstore.json")
	want(t, run("policy"), 0, "read back and verified")
	l, err := waiver.ParseList(d.evidence(t, "defects.yaml.sigstore.json"), d.policy(t))
	if err != nil {
		t.Fatal(err)
	}
	for accept, outcome := range map[string]verdict.Outcome{"late": verdict.Accepted, "": verdict.Refused} {
		c := waiver.Case{Lists: []waiver.List{l}}
		if accept != "" {
			c.Accept = []string{accept}
		}
		if v := d.judged(t, artifact, verdict.NoSBOM, c); v.Outcome() != outcome || v.Complete() {
			t.Errorf("accepting %q: %s", accept, v.Headline())
		}
	}
	unsigned, err := waiver.UnsignedList([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	if v := d.judged(t, artifact, verdict.NoSBOM, waiver.Case{Lists: []waiver.List{unsigned}, Accept: []string{"late"}}); v.Outcome() != verdict.Refused {
		t.Errorf("nobody signed it: %s", v.Headline())
	}
	statement := d.evidence(t, "defects.yaml.sigstore.json").Statement()
	d.write(t, "forged.json", d.sign(t, "release", &sign.DSSEData{PayloadType: intoto.PayloadType, Data: statement.Raw()}))
	_, err = waiver.ParseList(d.evidence(t, "forged.json"), d.policy(t))
	if f := verdict.FindingOf("", err); err == nil || f.Code != verdict.IdentityRole {
		t.Errorf("by the release identity: %v, want IDENTITY_ROLE", err)
	}

	d.write(t, "defects.yaml", []byte(strings.Replace(list, "it came late", "it came early", 1)))
	want(t, run("policy"), 1, "POLICY_STALE")
	d.write(t, "defects.yaml", []byte(strings.Replace(list, "sequence: 1", "sequence: 2", 1)))
	want(t, run("policy"), 0, "read back and verified")
	d.write(t, "defects.yaml", []byte(strings.Replace(list, "artifacts: ["+artifact+"]", "artifacts: []", 1)))
	want(t, run("policy"), 2, "list each artifact")
}

// sealPolicy signs policy.yaml with the token of a role.
func (d *desk) sealPolicy(t *testing.T, role string, more ...string) scene.Result {
	t.Helper()
	args := []string{"waybill", "policy", "sign", "policy.yaml", "--profile", "profile.yaml", "--identity-token", "policy=" + role + ".token"}
	return d.Run(t.Context(), append(args, more...)...)
}

// writePolicy writes the policy with a number; zero leaves it out.
func (d *desk) writePolicy(t *testing.T, plain string, number int) {
	t.Helper()
	if number > 0 {
		plain = strings.Replace(plain, "kind: Policy\n", fmt.Sprintf("kind: Policy\nsequence: %d\n", number), 1)
	}
	d.write(t, "policy.yaml", []byte(plain))
}

func (d *desk) absent(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(d.Path(name)); !os.IsNotExist(err) {
		t.Errorf("%s was written: %v", name, err)
	}
	if left, _ := filepath.Glob(d.Path(".waybill-tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func (d *desk) policy(t *testing.T) policy.Policy {
	t.Helper()
	p, err := policy.Parse(d.read(t, "policy.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// evidence verifies a bundle under the lab's trust root.
func (d *desk) evidence(t *testing.T, name string) verify.Evidence {
	t.Helper()
	root, err := trust.Parse(d.Lab.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(root)
	if err != nil {
		t.Fatal(err)
	}
	e, err := v.Attestation(d.read(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// judged is a verdict with one finding, after a case was brought to it.
func (d *desk) judged(t *testing.T, name string, code verdict.Code, c waiver.Case) *verdict.Verdict {
	t.Helper()
	v := verdict.New("release lantern v0.1.0", time.Now())
	v.Counts = verdict.Counts{Verified: 1, Required: 2}
	v.Proofs = []verdict.Proof{{Subject: "another", Bundle: digest.SetOf([]byte("its bundle")).SHA256}}
	v.Add(verdict.Find(code, name, "m"))
	var err error
	if c.Version, err = version.Parse(scene.Version); err != nil {
		t.Fatal(err)
	}
	c.Policy = d.policy(t)
	for _, n := range []string{artifact, "LICENSE"} {
		c.Subjects = append(c.Subjects, waiver.Subject{Name: n, Digests: digest.SetOf([]byte(n)), Destination: destination})
	}
	waiver.Apply(v, c)
	return v
}

// stating is a statement about an artifact whose bytes are its own name.
func stating(predicateType, name string, predicate []byte) sign.Content {
	return &sign.DSSEData{PayloadType: intoto.PayloadType, Data: fmt.Appendf(nil,
		`{"_type":%q,"subject":[{"name":%q,"digest":{"sha256":%q}}],"predicateType":%q,"predicate":%s}`,
		intoto.TypeV1, name, sum(name).Hex(), predicateType, predicate)}
}

// TestOfficerHelp: the commands explain themselves, and name every code that
// can be excepted.
func TestOfficerHelp(t *testing.T) {
	s := open(t)
	want(t, s.Run(t.Context(), "waybill", "policy", "sign", "--help"), 0, "EXIT STATUS", "Examples:", "--profile", "--confirm", "KnownDefects")
	r := s.Run(t.Context(), "waybill", "policy", "except", "--help")
	want(t, r, 0, "EXIT STATUS", "Examples:", "--profile", "--confirm")
	for _, c := range waiver.Codes() {
		want(t, r, 0, string(c))
	}
}
