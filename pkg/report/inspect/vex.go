package inspect

import (
	"cmp"
	"time"

	"github.com/openvex/go-vex/pkg/vex"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// VEX reads one OpenVEX document: a signed bundle, of which nothing is verified,
// a statement, or OpenVEX by itself.
func VEX(name string, raw []byte, at time.Time) (*verdict.Verdict, error) {
	v := verdict.NewCheck("what does the VEX document "+name+" state", at)
	v.Scope = verdict.Scope{Checks: []string{"its form"}, Left: []string{"signatures", "whether a newer document superseded it", "whether its products exist"}}
	v.Counts.Required, v.Counts.Verified = 1, 1
	d, err := openvex.ParseFile(raw, at)
	said, unsigned := verify.Read(raw)
	if len(said.Certificates) > 0 {
		part, _ := fromDER(said.Certificates[0])
		v.Tell("It names the signer %q, which was not verified.", part.value("identity"))
	}
	if unsigned == nil {
		raw = said.Payload
	}
	if s, no := intoto.ParseOpen(raw); no == nil {
		d, err = openvex.Parse(s, at)
	}
	if err != nil {
		return nil, verdict.InFile(name, err)
	}
	for _, s := range d.Statements {
		x := verdict.VEX{Vulnerability: string(s.Vulnerability.Name), Status: string(s.Status), Justification: string(s.Justification), Document: d.ID, Version: d.Version, Place: name, Issued: openvex.Issued(d, s)}
		for _, p := range s.Products {
			x.Products, x.Components = []string{cmp.Or(openvex.PURL(p.Component), string(p.Hashes[vex.SHA256]))}, openvex.Components(p)
			v.VEX = append(v.VEX, x)
			v.Tell("%s", x)
		}
	}
	if len(v.VEX) == 0 {
		return nil, verdict.Refuse(openvex.Form, name, "no statement names a product")
	}
	return v, nil
}
