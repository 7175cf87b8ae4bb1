package manifests

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	reportGroup = "orphan-reaper.github.io"
	reportCRD   = "orphanreports." + reportGroup
)

// TestOrphanReport: the reports and the rights to write them are enabled together; another release can have the
// definition.
func TestOrphanReport(t *testing.T) {
	for name, args := range values(t) {
		all := rendered(t, args...)
		set := kinds[*appsv1.DaemonSet](all)[0]
		writes := slices.Contains(set.Spec.Template.Spec.Containers[0].Args, "--orphan-report=in-cluster")
		if writes != (name != "least") {
			t.Errorf("%s: written: %v", name, writes)
		}
		if crds := kinds[*apiextensionsv1.CustomResourceDefinition](all); (len(crds) == 1) != (writes && name != "label") {
			t.Errorf("%s: %d definitions", name, len(crds))
		}
		if n := len(kinds[*admissionv1.ValidatingAdmissionPolicy](all)); n > 0 != writes {
			t.Errorf("%s: %d policies", name, n)
		}
		if n := len(kinds[*rbacv1.Role](all)); n > 0 != (writes && name != "enforce-tls") { // there the account is not the chart's
			t.Errorf("%s: %d roles", name, n)
		}
	}
}

// TestDefinition: helm uninstall leaves the definition, and with it every node's report; kubectl finds it by its short names.
func TestDefinition(t *testing.T) {
	crd := kinds[*apiextensionsv1.CustomResourceDefinition](rendered(t))[0]
	if crd.Name != reportCRD || crd.Annotations["helm.sh/resource-policy"] != "keep" || crd.Spec.Scope != apiextensionsv1.ClusterScoped {
		t.Errorf("%+v", crd.ObjectMeta)
	}
	if !slices.Equal(crd.Spec.Names.ShortNames, []string{"orphans", "orphan"}) || len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Subresources != nil {
		t.Errorf("%+v", crd.Spec)
	}
	closed(t, "", crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
}

// closed: nothing of a schema is without a bound, and nothing passes that it does not name.
func closed(t *testing.T, path string, s *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	switch {
	case s.XPreserveUnknownFields != nil, s.AdditionalProperties != nil, s.XIntOrString:
		t.Errorf("%s accepts an unnamed field", path)
	case s.Type == "array" && (s.MaxItems == nil || s.XListType == nil || *s.XListType != "atomic"):
		t.Errorf("%s has no maxItems, or is not atomic", path)
	case strings.HasPrefix(path, ".report") && s.Type == "string" && s.MaxLength == nil && s.Enum == nil && s.Format != "date-time":
		t.Errorf("%s has no maxLength", path)
	}
	if s.Items != nil {
		closed(t, path+"[]", s.Items.Schema)
	}
	for name, p := range s.Properties {
		closed(t, path+"."+name, &p)
	}
}

// TestOwnReportOnly: the policies are bound, deny, fail closed, and cover each way to change the account's
// objects.
func TestOwnReportOnly(t *testing.T) {
	all := rendered(t)
	policies := kinds[*admissionv1.ValidatingAdmissionPolicy](all)
	var covered []string
	for _, p := range policies {
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Fail || *p.Spec.MatchConstraints.MatchPolicy != admissionv1.Equivalent {
			t.Errorf("%s: %+v", p.Name, p.Spec)
		}
		if len(p.Spec.MatchConditions) != 1 || !strings.Contains(p.Spec.MatchConditions[0].Expression, `:orphan-reaper"`) {
			t.Errorf("%s is for %+v", p.Name, p.Spec.MatchConditions)
		}
		for _, v := range p.Spec.Validations {
			if v.Reason == nil || *v.Reason != metav1.StatusReasonForbidden {
				t.Errorf("%s: %s has another code than 403", p.Name, v.Expression)
			}
		}
		rule := p.Spec.MatchConstraints.ResourceRules[0]
		want := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
		if len(p.Spec.MatchConstraints.ResourceRules) != 1 || !reflect.DeepEqual(rule.Operations, want) || rule.Scope != nil || rule.ResourceNames != nil {
			t.Errorf("%s: %+v", p.Name, p.Spec.MatchConstraints)
		}
		covered = append(covered, rule.APIGroups[0]+"/"+rule.Resources[0])
		denied := slices.ContainsFunc(kinds[*admissionv1.ValidatingAdmissionPolicyBinding](all), func(b *admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name && slices.Equal(b.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) &&
				b.Spec.MatchResources == nil && b.Spec.ParamRef == nil
		})
		if !denied {
			t.Errorf("%s is not bound", p.Name)
		}
	}
	if !slices.Equal(covered, []string{"/events", reportGroup + "/orphanreports"}) && !slices.Equal(covered, []string{reportGroup + "/orphanreports", "/events"}) {
		t.Errorf("covered: %q", covered)
	}
}

// TestKubeletsReports: a kubelet's own credentials, too, are held to the report of the node that their user is named after.
func TestKubeletsReports(t *testing.T) {
	for _, p := range kinds[*admissionv1.ValidatingAdmissionPolicy](rendered(t)) {
		if p.Spec.MatchConstraints.ResourceRules[0].Resources[0] != "orphanreports" {
			continue
		}
		const kubelet = `request.userInfo.username.startsWith("system:node:")`
		if when := p.Spec.MatchConditions[0].Expression; !strings.HasSuffix(when, " || "+kubelet) {
			t.Errorf("it is for %s", when)
		}
		if node := p.Spec.Variables[0]; node.Name != "node" ||
			!strings.HasPrefix(node.Expression, kubelet+` ? request.userInfo.username.substring(size("system:node:")) : `) {
			t.Errorf("the node is %+v", node)
		}
		return
	}
	t.Error("there is no policy for reports")
}
