package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	forge  = "https://forge.example/org/lantern"
	commit = "1234567890123456789012345678901234567890"
)

// claims of the run that the genuine certificate of a run was issued to: the
// last arc of the extension, and its value.
func claims() map[int]string {
	return map[int]string{
		11: "github-hosted", 12: forge, 13: commit, 14: "refs/tags/v1.0.0", 15: "1001", 17: "2002",
		18: forge + "/.github/workflows/release.yml@refs/tags/v1.0.0", 20: "push", 21: forge + "/runs/1",
	}
}

// demanded is what every vector of a run is asked.
func demanded() []string {
	var ask []string
	for _, c := range [][2]string{
		{"buildConfigURI", claims()[18]}, {"buildTrigger", "push"}, {"runnerEnvironment", "github-hosted"}, {"sourceRepositoryRef", claims()[14]},
		{"sourceRepositoryIdentifier", "1001"}, {"sourceRepositoryOwnerIdentifier", "2002"}, {"sourceRepositoryURI", forge}, {"sourceRepositoryDigest", commit},
		{"runInvocationURI", claims()[21]},
	} {
		ask = append(ask, "--certificate-claim", c[0]+"="+c[1])
	}
	return ask
}

// run is a certificate with the claims, some of them changed; an empty value
// leaves a claim out.
func run(changed map[int]string) edit {
	said := claims()
	maps.Copy(said, changed)
	return func(c *x509.Certificate) {
		for _, arc := range slices.Sorted(maps.Keys(said)) {
			if said[arc] == "" {
				continue
			}
			value, err := asn1.MarshalWithParams(said[arc], "utf8")
			if err != nil {
				panic("vectors: " + err.Error())
			}
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, arc}, Value: value})
		}
	}
}

// built is provenance of a run.
func built(repository, commit string) string {
	return `{"_type":"` + intoto.TypeV1 + `","subject":[{"name":"` + artifactName + `","digest":{"sha256":"` +
		digest.Of(digest.SHA256, []byte(artifact)).Hex() + `"}}],"predicateType":"` + provenance.PredicateType + `","predicate":{"buildDefinition":{` +
		`"buildType":"https://actions.github.io/buildtypes/workflow/v1","externalParameters":{"workflow":{"ref":"refs/tags/v1.0.0","repository":"` + repository +
		`","path":".github/workflows/release.yml"}},"internalParameters":{"github":{"event_name":"push"}},"resolvedDependencies":[{"uri":"git+` + repository +
		`@refs/tags/v1.0.0","digest":{"gitCommit":"` + commit + `"}}]},"runDetails":{"builder":{"id":"https://forge.example/hosted"}}}}`
}

// runs are the certificates and statements of those vectors.
func runs() []forgery {
	workflow := "/.github/workflows/release.yml@refs/heads/main"
	return slices.Concat([]forgery{
		{name: "certificate-of-a-run", change: run(nil)},
		{name: "certificate-of-a-workflow", change: as(forge + workflow)},
		{name: "certificate-of-a-url-with-it", change: as("https://evil.example/build?ref=" + forge + workflow)},
		{name: "certificate-of-another-workflow", change: run(map[int]string{18: forge + "/.github/workflows/debug.yml@refs/tags/v1.0.0"})},
		{name: "certificate-of-a-branch", change: run(map[int]string{14: "refs/heads/v1.0.0"})},
		{name: "certificate-of-another-repository-id", change: run(map[int]string{15: "1002"})},
		{name: "certificate-of-another-owner-id", change: run(map[int]string{17: "2003"})},
		{name: "certificate-of-another-runner", change: run(map[int]string{11: "self-hosted"})},
		{name: "certificate-of-a-pull-request", change: run(map[int]string{20: "pull_request_target"})},
		{name: "certificate-of-another-run", change: run(map[int]string{21: forge + "/runs/2"})},
		{name: "provenance-of-a-run", change: run(nil), says: built(forge, commit)},
		{name: "provenance-of-another-repository", change: run(nil), says: built("https://forge.example/evil/lantern", commit)},
		{name: "provenance-of-another-commit", change: run(nil), says: built(forge, strings.Repeat("0", 40))},
		{name: "provenance-that-says-the-trigger", change: run(map[int]string{20: ""}), says: built(forge, commit)},
	}, ofAuthorities())
}

// demands ask for more than a name, and patterns for less.
func demands() []question {
	ask := func(name, why string, code verdict.Code) question {
		beside := "certificate-of-a-run"
		if strings.HasPrefix(name, "provenance") {
			beside = "provenance-of-a-run"
		}
		return question{vector: vector{name: name, why: why, from: name, code: code}, ask: demanded(), beside: beside}
	}
	pattern := func(name, why, from, text string, code verdict.Code) question {
		flags := []string{"--certificate-identity-regexp", text}
		if strings.HasPrefix(text, "https") {
			flags = append(flags, "--certificate-identity-type", "uri")
		}
		q := question{vector: vector{name: name, why: why, from: from, code: code}, ask: flags}
		if code != "" {
			q.beside = map[bool]string{true: "pattern-of-workflows", false: "pattern-of-addresses"}[len(flags) > 2]
		}
		return q
	}
	revoked := func(name, why, file string, code verdict.Code) question {
		return question{vector: vector{name: name, why: why, from: blob, code: code}, ask: []string{"--revoked", file}, beside: "revoked-later"}
	}
	const workflows = `https://forge\.example/org/lantern/.*`
	return []question{
		ask("certificate-of-a-run", "the certificate claims everything that is asked", ""),
		ask("certificate-of-another-workflow", "C21: another workflow file of the same repository", verdict.Workflow),
		ask("certificate-of-a-branch", "C22: a branch that has the name of the tag", verdict.SourceRef),
		ask("certificate-of-another-repository-id", "C23: a repository of the same name, made anew", verdict.SourceID),
		ask("certificate-of-another-owner-id", "C23: the same name under another owner", verdict.SourceID),
		ask("certificate-of-another-runner", "C24: a runner of somebody's own", verdict.Runner),
		ask("certificate-of-a-pull-request", "C25: a trigger that strangers can pull", verdict.Trigger),
		ask("certificate-of-another-run", "another run of the same workflow", verdict.Claim),
		ask("provenance-of-a-run", "provenance that agrees with the certificate of its signer", ""),
		ask("provenance-of-another-repository", "A26: the certificate is of another repository than the statement says", verdict.CertStatement),
		ask("provenance-of-another-commit", "A26: the certificate is of another commit than the statement says", verdict.CertStatement),
		{vector: vector{name: "provenance-of-another-repository-unasked", why: "A26: the question names the signer alone, and nothing of the source is proven", from: "provenance-of-another-repository"}},
		{vector: vector{name: "provenance-of-another-repository-by-tag", why: "A26: the question names the version of the source alone", from: "provenance-of-another-repository", code: verdict.CertStatement},
			ask: []string{"--source-versioned-tag", "v1"}, beside: "provenance-of-another-repository-unasked"},
		ask("provenance-that-says-the-trigger", "C28: the statement says the trigger, which the run itself wrote; the certificate does not", verdict.Trigger),
		pattern("pattern-of-workflows", "a pattern of everything in one repository", "certificate-of-a-workflow", workflows, ""),
		pattern("pattern-within-a-url", "C05: the address is a part of another one", "certificate-of-a-url-with-it", workflows, verdict.Identity),
		pattern("pattern-of-addresses", "a pattern of two addresses", blob, `(release|deputy)@lab\.invalid`, ""),
		pattern("pattern-of-a-suffix", "C01: the certificate's address ends with the pattern", "certificate-suffix", `(release|deputy)@lab\.invalid`, verdict.Identity),
		pattern("pattern-of-a-prefix", "C02: the certificate's address begins with the pattern", "certificate-prefix", `(release|deputy)@lab\.invalid`, verdict.Identity),
		pattern("pattern-with-an-open-dot", "C03: a dot that matches any character", blob, `release@lab.invalid`, verdict.PolicyWeak),
		pattern("pattern-with-an-open-alternation", "C04: an alternation that reaches past the anchors", blob, `^nobody@lab\.invalid$|release@lab\.invalid`, verdict.PolicyWeak),
		pattern("pattern-of-anybody", "C07: a pattern that matches strangers", blob, `.*`, verdict.PolicyWeak),
		revoked("revoked-later", "the signer is revoked for what it signs from another day on", "later.yaml", ""),
		revoked("revoked-identity", "C29: the signer's identity was revoked", "identity.yaml", verdict.Revoked),
		revoked("revoked-certificate", "C29: the certificate was revoked", "certificate.yaml", verdict.Revoked),
		revoked("revoked-before-it-was-logged", "D25: signed and logged after the day since which the signer is revoked", "before.yaml", verdict.Revoked),
	}
}

// revocations is the content of such a file.
func (s *maker) revocations(file string) string {
	issuer, subject := s.lab.Identity("release")
	who := fmt.Sprintf("identity: {issuer: %q, subject: %q, type: email}", issuer, subject)
	switch file {
	case "later.yaml":
		who += `, since: "2999-01-01"`
	case "before.yaml":
		who += `, since: "2020-01-01"`
	case "certificate.yaml":
		der := s.genuine[blob].VerificationMaterial.GetCertificate().GetRawBytes()
		who = fmt.Sprintf("certificate: %q", digest.Of(digest.SHA256, der))
	}
	return "apiVersion: waybill/v1\nkind: Revocations\nrevoked:\n- {" + who + ", reason: the key was found in a public place}\n"
}
