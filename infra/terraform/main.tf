# The stack of ../template.yaml, by CloudFormation: the functions, queues, roles and alarms are those
# of the template, so that both ways of deployment have the same stack.

locals {
  template = coalesce(var.template, "${path.module}/../template.yaml")
  lines    = split("\n", file(local.template))

  # The function of each line with the code of one: `CodeUri: ../target/lambda/NAME/` in the
  # repository, `CodeUri: NAME-ARCHITECTURE.zip` in a release.
  functions = [
    for line in local.lines :
    try(regex("^ +CodeUri: (?:\\.\\./target/lambda/)?([a-z]+)", line)[0], "")
  ]
  zips = {
    for name in toset(compact(local.functions)) : name =>
    lookup(var.zips, name, "${path.module}/../../target/lambda/${name}/bootstrap.zip")
  }
  body = join("\n", [
    for index, line in local.lines :
    local.functions[index] == "" ? line :
    replace(line, "/CodeUri: .*/", "CodeUri: s3://${aws_s3_bucket.code.bucket}/${aws_s3_object.zip[local.functions[index]].key}")
  ])
}

# What CloudFormation reads: the zips and the template, which is too large for a request.
resource "aws_s3_bucket" "code" {
  bucket_prefix = "driftless-code-"
  # Old zips and templates are of no use without the stack.
  force_destroy = true
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "code" {
  bucket                  = aws_s3_bucket.code.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

# The key has the digest: CloudFormation deploys a function again only if its key changes.
resource "aws_s3_object" "zip" {
  for_each = local.zips

  bucket = aws_s3_bucket.code.id
  key    = "${each.key}-${filesha256(each.value)}.zip"
  source = each.value

  lifecycle {
    # The stack leaves the old zip first.
    create_before_destroy = true
  }
}

resource "aws_s3_object" "template" {
  bucket  = aws_s3_bucket.code.id
  key     = "template-${sha256(local.body)}.yaml"
  content = local.body

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "driftless" {
  name         = var.name
  template_url = "https://${aws_s3_bucket.code.bucket_regional_domain_name}/${aws_s3_object.template.key}"
  parameters   = local.parameters
  # The roles, and the transform of SAM.
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
  tags         = var.tags
}
