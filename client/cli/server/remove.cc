#include "client/cli/server/remove.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "client/cli/server/names.h"

namespace ucudnn::ctl {
namespace {

struct RemoveOptions {
  std::vector<std::string> ids;
  std::string reason;
};

Status Remove(const Server& server, const Removable& removable,
              const RemoveOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  for (const std::string& text : options.ids) {
    v1::DeleteRequest request;
    request.set_id(text);
    if (removable.named) {
      UCUDNN_ASSIGN_OR_RETURN(*request.mutable_id(),
                              removable.named(*connection, text));
    }
    request.set_who(WhoAmI());
    request.set_reason(options.reason);
    UCUDNN_RETURN_IF_ERROR(
        OfNoPlan(connection->Call(removable.remove, request)));
    UCUDNN_RETURN_IF_ERROR(WriteText(
        "",
        fmt::format("{} {} removed\n", removable.what, OneLine(request.id()))));
  }
  return {};
}

}  // namespace

void AddRemove(CLI::App* list, const Server& server, const Removable& removable,
               Chosen* chosen) {
  const auto options = std::make_shared<RemoveOptions>();
  CLI::App* remove = list->add_subcommand(
      "rm", fmt::format("Remove {0}s; `ucudnn history` tells who did and why",
                        removable.what));
  remove
      ->add_option(removable.id, options->ids,
                   fmt::format("The {}s", removable.what))
      ->required();
  AddReasonOption(remove, &options->reason);
  OnChosen(remove, chosen, [&server, removable, options] {
    return Remove(server, removable, *options);
  });
}

}  // namespace ucudnn::ctl
