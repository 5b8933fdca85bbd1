#include "coordinator/certs_command.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "coordinator/security/issue.h"
#include "coordinator/security/tokens.h"

namespace ucudnn {
namespace {

struct CertsOptions {
  std::string folder = "/etc/ucudnn/certs";
  std::string cluster;
  std::string role;
  std::string name;
  std::vector<std::string> hosts;
  std::string revoked;
  std::string tokens;
  int authority_days = 3650;
  int days = 365;
};

Status Init(const CertsOptions& o) {
  UCUDNN_RETURN_IF_ERROR(
      InitAuthority(o.folder, o.cluster, std::chrono::days(o.authority_days)));
  fmt::print("{}/ca.crt\n", o.folder);
  return {};
}

Status Issue(const CertsOptions& o) {
  UCUDNN_ASSIGN_OR_RETURN(const Role role, ParseRole(o.role));
  UCUDNN_ASSIGN_OR_RETURN(
      const std::string path,
      IssueCertificate(o.folder, {.role = role,
                                  .name = o.name,
                                  .hosts = o.hosts,
                                  .lifetime = std::chrono::days(o.days)}));
  fmt::print("{}\n", path);
  return {};
}

// Prints the token, which is kept nowhere else.
Status AddToken(const CertsOptions& o) {
  UCUDNN_ASSIGN_OR_RETURN(const Role role, ParseRole(o.role));
  if (role == Role::kCoordinator) {
    return Fail(Code::kInvalidArgument, "coordinators have no tokens");
  }
  UCUDNN_RETURN_IF_ERROR(CheckPrincipalName("the name", o.name));
  std::string text;
  if (std::filesystem::exists(o.tokens)) {
    UCUDNN_ASSIGN_OR_RETURN(text, ReadSecret(o.tokens));
    if (const auto known = ParseTokens(text); !known) {
      return Within(o.tokens, known.error());
    }
    if (!text.empty() && text.back() != '\n') text += '\n';
  }
  const std::string token = NewToken();
  text += TokenLine({.cluster = {}, .role = role, .name = o.name}, token);
  UCUDNN_RETURN_IF_ERROR(ReplaceFile(o.tokens, text, 0600));
  fmt::print("{}\n", token);
  return {};
}

}  // namespace

void AddCertsCommand(CLI::App* app, std::function<Status()>* run) {
  const auto options = std::make_shared<CertsOptions>();
  CertsOptions& o = *options;
  CLI::App* certs = app->add_subcommand(
      "certs", "Issue and revoke certificates and tokens for a cluster");
  certs->require_subcommand(1);
  const auto add = [&](const char* name, const char* help,
                       Status (*act)(const CertsOptions&)) {
    CLI::App* command = certs->add_subcommand(name, help);
    command->callback([options, act, run] {
      *run = [options, act] { return act(*options); };
    });
    return command;
  };
  const auto add_folder = [&](CLI::App* command) {
    command->add_option("--dir", o.folder, "The authority's folder")
        ->option_text("DIR");
  };
  const auto add_who = [&](CLI::App* command) {
    command
        ->add_option("role", o.role,
                     "agent, job, viewer, operator, admin or coordinator")
        ->required()
        ->option_text("ROLE");
    command->add_option("name", o.name, "Whose it is; an agent's is its --id")
        ->required()
        ->option_text("NAME");
  };
  CLI::App* init = add("init", "Create the cluster's authority", Init);
  add_folder(init);
  init->add_option("--cluster", o.cluster, "The cluster's name")
      ->required()
      ->option_text("NAME");
  init->add_option("--days", o.authority_days, "How long it is good")
      ->check(CLI::Range(1, 36'500));
  CLI::App* issue =
      add("issue", "Issue a certificate with a new private key", Issue);
  add_folder(issue);
  add_who(issue);
  issue
      ->add_option("--host", o.hosts,
                   "Names and addresses by which clients reach a coordinator")
      ->delimiter(',')
      ->option_text("HOST[,...]");
  issue->add_option("--days", o.days, "How long it is good")
      ->check(CLI::Range(1, 36'500));
  CLI::App* revoke = add("revoke", "Add a certificate to DIR/revoked.pem",
                         [](const CertsOptions& c) {
                           return RevokeCertificate(c.folder, c.revoked);
                         });
  add_folder(revoke);
  revoke->add_option("certificate", o.revoked, "Its file")
      ->required()
      ->option_text("FILE");
  CLI::App* token =
      add("token", "Add a token to a file of hashes, and print it", AddToken);
  add_who(token);
  token->add_option("--tokens", o.tokens, "The file for serve --tokens")
      ->required()
      ->option_text("FILE");
}

}  // namespace ucudnn
