package parsers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestHostileCNICaches has content that libcni did not write.
func TestHostileCNICaches(t *testing.T) {
	name, good := newCNIFile().write(t)
	v1 := string(good)
	replace := func(old, with string) string {
		if !strings.Contains(v1, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(v1, old, with, 1)
	}
	add := func(member string) string { return "{" + member + "," + v1[1:] }
	last := func(member string) string { return v1[:len(v1)-1] + "," + member + "}" }
	byName := func(kind CNIKind) CNIFile {
		return CNIFile{Kind: kind, ContainerID: boxID, Network: "n", IfName: "eth0"}
	}
	untied := func(kind CNIKind, why Untied) CNIFile {
		f := CNIFile{Kind: kind, Untied: why}
		if kind == CNICacheV1 {
			f.PodNamespace, f.PodName = "default", "two-labnode"
		}
		return f
	}
	whole := ParseCNICache(name, good)
	if whole.Untied != "" {
		t.Fatalf("%+v", whole)
	}
	for what, test := range map[string]struct {
		content string
		want    CNIFile
	}{
		"white space around":         {"\n\t " + v1 + " \r\n", whole},
		"other keys":                 {add(`"cniVersion":"2.0.0","x":{"kind":"y"}`), whole},
		"null elsewhere":             {replace(`"containerId":"`+boxID+`",`, `"containerId":"`+boxID+`","capabilityArgs":null,"result":null,`), whole},
		"args are null":              {`{"kind":"cniCacheV1","containerId":"` + boxID + `","ifName":"eth0","networkName":"n","cniArgs":null}`, CNIFile{Kind: CNICacheV1, Untied: UntiedContent}},
		"escaped namespace":          {add(`"result":{"interfaces":[{"sandbox":"\/run\u002fnetns/x"}]}`), func() CNIFile { f := whole; f.NetNS = "/run/netns/x"; return f }()},
		"escaped key":                {replace(`"ifName"`, `"\u0069fName"`), whole},
		"BOM":                        {"\ufeff" + v1, byName(CNIUnreadable)},
		"trailing garbage":           {v1 + "}", byName(CNIUnreadable)},
		"twice":                      {v1 + v1, byName(CNIUnreadable)},
		"cut off in a second copy":   {`{"kind":"cniCacheV1","kind":"`, byName(CNIUnreadable)},
		"zeros":                      {strings.Repeat("\x00", len(v1)), byName(CNIUnreadable)},
		"zeros after":                {v1 + "\x00", byName(CNIUnreadable)},
		"white space":                {" \n", byName(CNIUnreadable)},
		"comment":                    {v1 + "//", byName(CNIUnreadable)},
		"trailing comma":             {v1[:len(v1)-1] + ",}", byName(CNIUnreadable)},
		"a number with a zero first": {add(`"x":01`), byName(CNIUnreadable)},
		"NaN":                        {add(`"x":NaN`), byName(CNIUnreadable)},
		"a newline in a string":      {add("\"x\":\"\n\""), byName(CNIUnreadable)},
		"invalid UTF-8 elsewhere":    {add("\"x\":\"\xff\""), whole},
		"invalid UTF-8 in the UID":   {replace(podUID, "\xff"+podUID[1:]), func() CNIFile { f := whole; f.PodUID = ""; return f }()},
		"invalid UTF-8 in two UIDs":  {replace(`"`+podUID+`"`, "\"\xff\"],[\"K8S_POD_UID\",\"\xfe\""), untied(CNICacheV1, UntiedContradiction)},
		"invalid UTF-8 in an ID":     {replace(boxID, "\xff"+boxID[1:]), untied(CNICacheV1, UntiedContent)},
		"no object":                  {"[" + v1 + "]", untied(CNIUnknown, UntiedContent)},
		"null":                       {"null", untied(CNIUnknown, UntiedContent)},
		"an empty object":            {"{}", untied(CNIUnknown, UntiedContent)},
		"another kind":               {replace("cniCacheV1", "cniCacheV2"), untied(CNIUnknown, UntiedContent)},
		"no kind":                    {replace(`"kind":"cniCacheV1",`, ""), untied(CNIUnknown, UntiedContent)},
		"kind is a number":           {replace(`"cniCacheV1"`, "1"), untied(CNIUnknown, UntiedContent)},
		"two kinds":                  {add(`"kind":"cniCacheV2"`), untied(CNIUnknown, UntiedContent)},
		"ID twice":                   {add(`"containerId":"` + otherID + `"`), untied(CNICacheV1, UntiedContradiction)},
		"ID twice, the same":         {add(`"containerId":"` + boxID + `"`), untied(CNICacheV1, UntiedContradiction)},
		"ID twice, the last other":   {last(`"containerId":"` + otherID + `"`), untied(CNICacheV1, UntiedContradiction)},
		"ID twice, in capitals":      {last(`"CONTAINERID":"` + otherID + `"`), untied(CNICacheV1, UntiedContradiction)},
		"ID twice, folded":           {last(`"\u212aind":"cniCacheV1"`), untied(CNICacheV1, UntiedContradiction)},
		"ID twice, escaped":          {last(`"container\u0049d":"` + otherID + `"`), untied(CNICacheV1, UntiedContradiction)},
		"args twice":                 {add(`"cniArgs":[["K8S_POD_UID","` + podUID + `"]]`), untied(CNICacheV1, UntiedContradiction)},
		"result twice":               {add(`"result":{},"result":{}`), untied(CNICacheV1, UntiedContradiction)},
		"no ID":                      {replace(`"containerId":"`+boxID+`",`, ""), untied(CNICacheV1, UntiedContent)},
		"ID is null":                 {replace(`"containerId":"`+boxID+`"`, `"containerId":null`), untied(CNICacheV1, UntiedContent)},
		"ID is an array":             {replace(`"containerId":"`+boxID+`"`, `"containerId":["`+boxID+`"]`), untied(CNICacheV1, UntiedContent)},
		"UID is a number":            {replace(`"`+podUID+`"`, "5"), untied(CNICacheV1, UntiedContent)},
		"UID is an array":            {replace(`"`+podUID+`"`, `["`+podUID+`"]`), untied(CNICacheV1, UntiedContent)},
		"a triple":                   {replace(`"`+podUID+`"`, `"`+podUID+`","x"`), untied(CNICacheV1, UntiedContent)},
		"a single":                   {replace(`["IgnoreUnknown","1"]`, `["IgnoreUnknown"]`), untied(CNICacheV1, UntiedContent)},
		"an object of args":          {replace(`["IgnoreUnknown","1"]`, `{"IgnoreUnknown":"1"}`), untied(CNICacheV1, UntiedContent)},
		"an empty name of a network": {replace(`"networkName":"n"`, `"networkName":""`), untied(CNICacheV1, UntiedName)},
		"deep":                       {add(`"x":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6)), untied(CNIUnknown, UntiedSize)},
		"deep and cut off":           {strings.Repeat(`{"a":`, 3e5), untied(CNIUnknown, UntiedSize)},
		"long":                       {v1 + strings.Repeat(" ", MaxCNIFile), untied(CNIUnknown, UntiedSize)},
		"as long as may be":          {v1 + strings.Repeat(" ", MaxCNIFile-len(v1)), whole},
		"bare result, 0.3.1":         {`{"cniVersion":"0.3.1","interfaces":[{"name":"eth0"}],"ips":[{"version":"4","address":"10.1.2.3/24"}],"dns":{}}`, byName(CNILegacy)},
		"bare result, 0.2.0":         {`{"cniVersion":"0.2.0","ip4":{"ip":"10.1.2.3/24"},"dns":{}}`, byName(CNILegacy)},
		"bare result, no version":    {`{"dns":{}}`, byName(CNILegacy)},
		"bare result with an ID":     {`{"cniVersion":"0.3.1","dns":{},"containerId":"` + otherID + `"}`, untied(CNIUnknown, UntiedContent)},
		"bare result of a kind":      {`{"cniVersion":"0.3.1","dns":{},"Kind":"cniCacheV3"}`, untied(CNIUnknown, UntiedContent)},
	} {
		if got := ParseCNICache(name, []byte(test.content)); got != test.want {
			t.Errorf("%s:\n got %+v\nwant %+v", what, got, test.want)
		}
	}
}

// TestSplicedCNICaches puts members and arguments of two containers' files together in
// any order and number: where a file is tied, encoding/json reads nothing else from it.
func TestSplicedCNICaches(t *testing.T) {
	_, one := newCNIFile().write(t)
	other := newCNIFile()
	other.ContainerID, other.CniArgs[3][1], other.NetNS = otherID, otherID, podNS
	_, two := other.write(t)
	members := []string{`"KIND":"cniCacheV1"`, `"container\u0049d":"` + boxID + `"`, `"x":[{"containerId":"` + otherID + `"}]`, `"result":{"interfaces":[{"sandbox":"/run/netns/x"}]}`}
	for _, data := range [][]byte{one, two} {
		o, err := parseObject(string(data))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range o {
			members = append(members, fmt.Sprintf("%q:%s", key, value))
		}
	}
	slices.Sort(members)
	rnd := rand.New(rand.NewPCG(1, 2))
	tied, contradictions := 0, 0
	for range 50_000 {
		rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		content := []byte("{" + strings.Join(members[:4+rnd.IntN(9)], ",") + "}")
		for _, name := range []string{"n-" + boxID + "-eth0", "n-" + otherID + "-eth0"} {
			got := ParseCNICache(name, content)
			consistent(t, name, got)
			switch {
			case got.Kind == CNICacheV1 && got.Untied == "":
				tied++
				sameAsJSON(t, content, got)
			case got.Untied == UntiedContradiction:
				contradictions++
			}
		}
	}
	if tied < 500 || contradictions < 500 {
		t.Errorf("only %d tied, %d contradict themselves", tied, contradictions)
	}
}

// TestWhyDuplicateKeysCount shows that encoding/json, and so libcni, takes the last of
// two keys and does not care for capitals: a parser that takes the first, or only those
// in the right case, would see another container than the runtime.
func TestWhyDuplicateKeysCount(t *testing.T) {
	var f libcniFile
	err := json.Unmarshal(fmt.Appendf(nil, `{"containerId":%q,"CONTAINERID":%q}`, boxID, otherID), &f)
	if err != nil || f.ContainerID != otherID {
		t.Errorf("%q, %v", f.ContainerID, err)
	}
}

func TestCNIScratch(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          CNIFile
	}{
		{boxID, `[{"name":"n","type":"bridge"}]`, CNIFile{Kind: CNIScratch, ContainerID: boxID}},
		{boxID, ` {"name":"cbr0","type":"bridge"}`, CNIFile{Kind: CNIScratch, ContainerID: boxID}},
		{boxID, "", CNIFile{Kind: CNIEmpty, ContainerID: boxID}},
		{boxID, `[{"name":`, CNIFile{Kind: CNIUnreadable, ContainerID: boxID}},
		{boxID, `[] []`, CNIFile{Kind: CNIUnreadable, ContainerID: boxID}},
		{boxID, "null", CNIFile{Untied: UntiedContent}},
		{boxID, strings.Repeat("[", 1e6), CNIFile{Untied: UntiedSize}},
		{boxID, strings.Repeat(" ", MaxCNIFile+1), CNIFile{Untied: UntiedSize}},
		{boxID[1:], "[]", CNIFile{Kind: CNIScratch, Untied: UntiedName}},
		{boxID + "0", "[]", CNIFile{Kind: CNIScratch, Untied: UntiedName}},
		{"n-" + boxID + "-eth0", "[]", CNIFile{Kind: CNIScratch, Untied: UntiedName}},
		{strings.ToUpper(boxID), "", CNIFile{Kind: CNIEmpty, Untied: UntiedName}},
		{"multus-shim.json", "[]", CNIFile{Kind: CNIScratch, Untied: UntiedName}},
	} {
		if got := ParseCNIScratch(test.name, []byte(test.content)); got != test.want {
			t.Errorf("%s %.20q:\n got %+v\nwant %+v", test.name, test.content, got, test.want)
		}
	}
	if got := fmt.Sprint(CNIUnknown, CNIScratch, CNIKind(-1), CNIKind(99)); got != "unknown scratch unknown unknown" {
		t.Error(got)
	}
}
