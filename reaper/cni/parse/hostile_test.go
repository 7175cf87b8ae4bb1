package parse

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
	byName := func(kind Kind) File {
		return File{Kind: kind, ContainerID: boxID, Network: "n", IfName: "eth0"}
	}
	untied := func(kind Kind, why Untied) File {
		f := File{Kind: kind, Untied: why}
		if kind == CacheV1 {
			f.PodNamespace, f.PodName = "default", "two-labnode"
		}
		return f
	}
	whole := ParseCache(name, good)
	if whole.Untied != "" {
		t.Fatalf("%+v", whole)
	}
	inNetNS := whole
	inNetNS.NetNS = "/run/netns/x"
	for what, test := range map[string]struct {
		content string
		want    File
	}{
		"white space around": {"\n\t " + v1 + " \r\n", whole},
		"other keys":         {add(`"cniVersion":"2.0.0","x":{"kind":"y"}`), whole},
		"null elsewhere":     {replace(`"containerId":"`+boxID+`",`, `"containerId":"`+boxID+`","capabilityArgs":null,"result":null,`), whole},
		"args are null": {
			`{"kind":"cniCacheV1","containerId":"` + boxID + `","ifName":"eth0","networkName":"n","cniArgs":null}`,
			File{Kind: CacheV1, Untied: UntiedContent},
		},
		"escaped namespace": {add(`"result":{"interfaces":[{"sandbox":"\/run\u002fnetns/x"}]}`), inNetNS},
		"interfaces twice": {
			add(`"result":{"interfaces":[{"sandbox":"/run/netns/x"}],"interfaces":[]}`), inNetNS,
		},
		"interfaces twice, another namespace": {
			add(`"result":{"interfaces":[{"sandbox":"/run/netns/y"}],"interfaces":[{"sandbox":"/run/netns/x"}]}`), untied(CacheV1, UntiedContradiction),
		},
		"interfaces twice, first no array": {
			add(`"result":{"interfaces":"x","interfaces":[{"sandbox":"/run/netns/x"}]}`), inNetNS,
		},
		"a namespace taken back": {
			add(`"result":{"interfaces":[{"sandbox":"/run/netns/x","sandbox":""}]}`), untied(CacheV1, UntiedContradiction),
		},
		"escaped key":                {replace(`"ifName"`, `"\u0069fName"`), whole},
		"BOM":                        {"\ufeff" + v1, byName(Unreadable)},
		"trailing garbage":           {v1 + "}", byName(Unreadable)},
		"twice":                      {v1 + v1, byName(Unreadable)},
		"cut off in a second copy":   {`{"kind":"cniCacheV1","kind":"`, byName(Unreadable)},
		"zeros":                      {strings.Repeat("\x00", len(v1)), byName(Unreadable)},
		"zeros after":                {v1 + "\x00", byName(Unreadable)},
		"white space":                {" \n", byName(Unreadable)},
		"comment":                    {v1 + "//", byName(Unreadable)},
		"trailing comma":             {v1[:len(v1)-1] + ",}", byName(Unreadable)},
		"a number with a zero first": {add(`"x":01`), byName(Unreadable)},
		"NaN":                        {add(`"x":NaN`), byName(Unreadable)},
		"a newline in a string":      {add("\"x\":\"\n\""), byName(Unreadable)},
		"invalid UTF-8 elsewhere":    {add("\"x\":\"\xff\""), whole},
		"invalid UTF-8 in the UID":   {replace(podUID, "\xff"+podUID[1:]), func() File { f := whole; f.PodUID = ""; return f }()},
		"invalid UTF-8 in two UIDs":  {replace(`"`+podUID+`"`, "\"\xff\"],[\"K8S_POD_UID\",\"\xfe\""), untied(CacheV1, UntiedContradiction)},
		"invalid UTF-8 in an ID":     {replace(boxID, "\xff"+boxID[1:]), untied(CacheV1, UntiedContent)},
		"no object":                  {"[" + v1 + "]", untied(Unknown, UntiedContent)},
		"null":                       {"null", untied(Unknown, UntiedContent)},
		"an empty object":            {"{}", untied(Unknown, UntiedContent)},
		"another kind":               {replace("cniCacheV1", "cniCacheV2"), untied(Unknown, UntiedContent)},
		"no kind":                    {replace(`"kind":"cniCacheV1",`, ""), untied(Unknown, UntiedContent)},
		"kind is a number":           {replace(`"cniCacheV1"`, "1"), untied(Unknown, UntiedContent)},
		"two kinds":                  {add(`"kind":"cniCacheV2"`), untied(Unknown, UntiedContent)},
		"ID twice":                   {add(`"containerId":"` + otherID + `"`), untied(CacheV1, UntiedContradiction)},
		"ID twice, the same":         {add(`"containerId":"` + boxID + `"`), untied(CacheV1, UntiedContradiction)},
		"ID twice, the last other":   {last(`"containerId":"` + otherID + `"`), untied(CacheV1, UntiedContradiction)},
		"ID twice, in capitals":      {last(`"CONTAINERID":"` + otherID + `"`), untied(CacheV1, UntiedContradiction)},
		"ID twice, folded":           {last(`"\u212aind":"cniCacheV1"`), untied(CacheV1, UntiedContradiction)},
		"ID twice, escaped":          {last(`"container\u0049d":"` + otherID + `"`), untied(CacheV1, UntiedContradiction)},
		"numbers twice":              {add(`"netns":5,"netns":6`), untied(CacheV1, UntiedContradiction)},
		"args twice":                 {add(`"cniArgs":[["K8S_POD_UID","` + podUID + `"]]`), untied(CacheV1, UntiedContradiction)},
		"result twice":               {add(`"result":{},"result":{}`), untied(CacheV1, UntiedContradiction)},
		"no ID":                      {replace(`"containerId":"`+boxID+`",`, ""), untied(CacheV1, UntiedContent)},
		"ID is null":                 {replace(`"containerId":"`+boxID+`"`, `"containerId":null`), untied(CacheV1, UntiedContent)},
		"ID is an array":             {replace(`"containerId":"`+boxID+`"`, `"containerId":["`+boxID+`"]`), untied(CacheV1, UntiedContent)},
		"UID is a number":            {replace(`"`+podUID+`"`, "5"), untied(CacheV1, UntiedContent)},
		"UID is an array":            {replace(`"`+podUID+`"`, `["`+podUID+`"]`), untied(CacheV1, UntiedContent)},
		"a triple":                   {replace(`"`+podUID+`"`, `"`+podUID+`","x"`), untied(CacheV1, UntiedContent)},
		"a single":                   {replace(`["IgnoreUnknown","1"]`, `["IgnoreUnknown"]`), untied(CacheV1, UntiedContent)},
		"an object of args":          {replace(`["IgnoreUnknown","1"]`, `{"IgnoreUnknown":"1"}`), untied(CacheV1, UntiedContent)},
		"an empty name of a network": {replace(`"networkName":"n"`, `"networkName":""`), untied(CacheV1, UntiedName)},
		"deep":                       {add(`"x":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6)), untied(Unknown, UntiedSize)},
		"deep and cut off":           {strings.Repeat(`{"a":`, 3e5), untied(Unknown, UntiedSize)},
		"long":                       {v1 + strings.Repeat(" ", MaxFile), untied(Unknown, UntiedSize)},
		"as long as may be":          {v1 + strings.Repeat(" ", MaxFile-len(v1)), whole},
		"bare result, 0.3.1": {
			`{"cniVersion":"0.3.1","interfaces":[{"name":"eth0"}],"ips":[{"version":"4","address":"10.1.2.3/24"}],"dns":{}}`, byName(Legacy),
		},
		"bare result, 0.2.0":      {`{"cniVersion":"0.2.0","ip4":{"ip":"10.1.2.3/24"},"dns":{}}`, byName(Legacy)},
		"bare result, no version": {`{"dns":{}}`, byName(Legacy)},
		"bare result with an ID":  {`{"cniVersion":"0.3.1","dns":{},"containerId":"` + otherID + `"}`, untied(Unknown, UntiedContent)},
		"bare result of a kind":   {`{"cniVersion":"0.3.1","dns":{},"Kind":"cniCacheV3"}`, untied(Unknown, UntiedContent)},
	} {
		if got := ParseCache(name, []byte(test.content)); got != test.want {
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
	members := []string{
		`"KIND":"cniCacheV1"`, `"container\u0049d":"` + boxID + `"`, `"x":[{"containerId":"` + otherID + `"}]`,
		`"result":{"interfaces":[{"sandbox":"/run/netns/x"}]}`,
	}
	for _, data := range [][]byte{one, two} {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(data, &o); err != nil {
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
			got := ParseCache(name, content)
			consistent(t, name, got)
			switch {
			case got.Kind == CacheV1 && got.Untied == "":
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
		want          File
	}{
		{boxID, `[{"name":"n","type":"bridge"}]`, File{Kind: Scratch, ContainerID: boxID}},
		{boxID, ` {"name":"cbr0","type":"bridge"}`, File{Kind: Scratch, ContainerID: boxID}},
		{boxID, "", File{Kind: Empty, ContainerID: boxID}},
		{boxID, `[{"name":`, File{Kind: Unreadable, ContainerID: boxID}},
		{boxID, `[] []`, File{Kind: Unreadable, ContainerID: boxID}},
		{boxID, "null", File{Untied: UntiedContent}},
		{boxID, strings.Repeat("[", 1e6), File{Untied: UntiedSize}},
		{boxID, strings.Repeat(" ", MaxFile+1), File{Untied: UntiedSize}},
		{boxID[1:], "[]", File{Kind: Scratch, Untied: UntiedName}},
		{boxID + "0", "[]", File{Kind: Scratch, Untied: UntiedName}},
		{"n-" + boxID + "-eth0", "[]", File{Kind: Scratch, Untied: UntiedName}},
		{strings.ToUpper(boxID), "", File{Kind: Empty, Untied: UntiedName}},
		{"multus-shim.json", "[]", File{Kind: Scratch, Untied: UntiedName}},
	} {
		if got := ParseScratch(test.name, []byte(test.content)); got != test.want {
			t.Errorf("%s %.20q:\n got %+v\nwant %+v", test.name, test.content, got, test.want)
		}
	}
	if got := fmt.Sprint(Unknown, Scratch, Kind(-1), Kind(99)); got != "unknown scratch unknown unknown" {
		t.Error(got)
	}
}
