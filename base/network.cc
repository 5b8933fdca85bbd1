#include "base/network.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/files/csv.h"
#include "base/limits.h"
#include "base/text.h"

namespace ucudnn {
namespace {

// What runs when a transposed layer performs `op`.
ConvOp Adjoint(ConvOp op) {
  switch (op) {
    case ConvOp::kForward:
      return ConvOp::kBackwardData;
    case ConvOp::kBackwardData:
      return ConvOp::kForward;
    case ConvOp::kBackwardFilter:
      return ConvOp::kBackwardFilter;
  }
  return op;
}

}  // namespace

std::vector<Kernel> KernelsOf(const Network& network, Precision precision,
                              Layout layout) {
  std::vector<Kernel> kernels;
  for (const ConvLayer& layer : network.layers) {
    for (const ConvOp op : kConvOps) {
      if (op == ConvOp::kBackwardData && !layer.needs_input_gradient) continue;
      kernels.push_back({layer.name, op,
                         ConvProblem{layer.transposed ? Adjoint(op) : op,
                                     layer.geometry, precision, layout}});
    }
  }
  return kernels;
}

namespace {

constexpr std::int64_t kMaxField = std::int64_t{1} << 31;

// An integer of the geometry and its column.
struct Column {
  std::string_view name;
  std::int64_t min;
  std::int64_t& (*field)(ConvGeometry&);
};

#define UCUDNN_COLUMN(name, min, field)                                 \
  Column {                                                              \
    name, min, [](ConvGeometry& g) -> std::int64_t& { return g.field; } \
  }

constexpr std::array kColumns = {
    UCUDNN_COLUMN("C", 1, channels),
    UCUDNN_COLUMN("H", 1, input[1]),
    UCUDNN_COLUMN("W", 1, input[2]),
    UCUDNN_COLUMN("K", 1, filters),
    UCUDNN_COLUMN("R", 1, filter[1]),
    UCUDNN_COLUMN("S", 1, filter[2]),
    UCUDNN_COLUMN("pad_h", 0, padding[1]),
    UCUDNN_COLUMN("pad_w", 0, padding[2]),
    UCUDNN_COLUMN("stride_h", 1, stride[1]),
    UCUDNN_COLUMN("stride_w", 1, stride[2]),
    UCUDNN_COLUMN("groups", 1, groups),
};
constexpr std::array kDilationColumns = {
    UCUDNN_COLUMN("dilation_h", 1, dilation[1]),
    UCUDNN_COLUMN("dilation_w", 1, dilation[2]),
};
constexpr std::array kDepthColumns = {
    UCUDNN_COLUMN("D", 1, input[0]),
    UCUDNN_COLUMN("T", 1, filter[0]),
    UCUDNN_COLUMN("pad_d", 0, padding[0]),
    UCUDNN_COLUMN("stride_d", 1, stride[0]),
    UCUDNN_COLUMN("dilation_d", 1, dilation[0]),
};
constexpr std::array kImagesColumn = {UCUDNN_COLUMN("images", 1, images)};
constexpr std::array<std::string_view, 2> kFlagColumns = {
    "transposed", "needs_input_gradient"};

#undef UCUDNN_COLUMN

// A geometry column that is present in the file.
struct Found {
  CsvColumn place;
  Column column;
};

Status ReadField(const CsvReader& csv, const Found& found, ConvGeometry* g) {
  UCUDNN_ASSIGN_OR_RETURN(
      found.column.field(*g),
      csv.ReadInteger(found.place, found.column.min, kMaxField));
  return {};
}

Result<std::string_view> ParseEmpty(std::string_view field) {
  if (field.empty()) return field;
  return Fail(Code::kInvalidArgument,
              "'{}' is given, but the row's D is empty; give both or none",
              Excerpt(field));
}

Result<bool> ParseFlag(std::string_view field) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t value, ParseInteger(field, 0, 1));
  return value == 1;
}

Result<std::string_view> ParseLayerName(std::string_view field) {
  if (field.size() <= kMaxLayerNameBytes) return ParseNonEmpty(field);
  return Fail(Code::kInvalidArgument,
              "'{}' is {} bytes long; a name of up to {} is accepted",
              Excerpt(field, 40), field.size(), kMaxLayerNameBytes);
}

class NetworkReader {
 public:
  explicit NetworkReader(CsvReader csv) : csv_(std::move(csv)) {}

  Status ReadHeader() {
    UCUDNN_ASSIGN_OR_RETURN(name_, csv_.Require("name"));
    for (const Column& column : kColumns) {
      UCUDNN_ASSIGN_OR_RETURN(const CsvColumn place, csv_.Require(column.name));
      geometry_.push_back({place, column});
    }
    UCUDNN_RETURN_IF_ERROR(FindGroup(kDilationColumns, &geometry_));
    UCUDNN_RETURN_IF_ERROR(FindGroup(kImagesColumn, &geometry_));
    UCUDNN_RETURN_IF_ERROR(FindGroup(kDepthColumns, &depth_));
    UCUDNN_ASSIGN_OR_RETURN(transposed_, csv_.Find(kFlagColumns[0]));
    UCUDNN_ASSIGN_OR_RETURN(needs_gradient_, csv_.Find(kFlagColumns[1]));
    return {};
  }

  // Empty at the end.
  Result<std::optional<ConvLayer>> ReadRow() {
    UCUDNN_ASSIGN_OR_RETURN(const bool more, csv_.Next());
    if (!more) return std::optional<ConvLayer>();
    ConvLayer layer;
    UCUDNN_ASSIGN_OR_RETURN(layer.name, csv_.Read(name_, ParseLayerName));
    if (!names_.insert(layer.name).second) {
      return csv_.At(name_, {Code::kInvalidArgument,
                             fmt::format("'{}' is the name of a row above; "
                                         "each needs one of its own",
                                         Excerpt(layer.name))});
    }
    for (const Found& found : geometry_) {
      UCUDNN_RETURN_IF_ERROR(ReadField(csv_, found, &layer.geometry));
    }
    UCUDNN_RETURN_IF_ERROR(ReadDepth(&layer.geometry));
    if (Status valid = Validate(layer.geometry); !valid) {
      return csv_.At(std::move(valid).error());
    }
    layer.needs_input_gradient = names_.size() > 1;
    if (transposed_) {
      UCUDNN_ASSIGN_OR_RETURN(layer.transposed,
                              csv_.Read(*transposed_, ParseFlag));
    }
    if (needs_gradient_) {
      UCUDNN_ASSIGN_OR_RETURN(layer.needs_input_gradient,
                              csv_.Read(*needs_gradient_, ParseFlag));
    }
    return std::optional<ConvLayer>(std::move(layer));
  }

 private:
  // Finds all columns of a group, or none.
  template <std::size_t n>
  Status FindGroup(const std::array<Column, n>& group,
                   std::vector<Found>* found) {
    bool any = false;
    for (const Column& column : group) {
      UCUDNN_ASSIGN_OR_RETURN(const auto place, csv_.Find(column.name));
      any = any || place.has_value();
    }
    if (!any) return {};
    for (const Column& column : group) {
      UCUDNN_ASSIGN_OR_RETURN(const CsvColumn place, csv_.Require(column.name));
      found->push_back({place, column});
    }
    return {};
  }

  Status ReadDepth(ConvGeometry* g) {
    if (depth_.empty()) return {};
    const bool flat = csv_.Field(depth_.front().place).empty();
    if (!flat) g->spatial_dims = 3;
    for (const Found& found : depth_) {
      if (flat) {
        UCUDNN_RETURN_IF_ERROR(csv_.Read(found.place, ParseEmpty));
      } else {
        UCUDNN_RETURN_IF_ERROR(ReadField(csv_, found, g));
      }
    }
    return {};
  }

  CsvReader csv_;
  CsvColumn name_ = 0;
  std::vector<Found> geometry_;
  std::vector<Found> depth_;  // empty, or D first
  std::optional<CsvColumn> transposed_;
  std::optional<CsvColumn> needs_gradient_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace

Result<Network> ParseNetworkCsv(std::string_view text, std::string_view name,
                                std::string_view source) {
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, source));
  NetworkReader reader(std::move(csv));
  UCUDNN_RETURN_IF_ERROR(reader.ReadHeader());
  Network network{std::string(name), {}};
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(auto layer, reader.ReadRow());
    if (!layer) break;
    if (network.layers.size() == kMaxLayers) {
      return Fail(Code::kInvalidArgument,
                  "{}: it has more than {} convolutions, the most accepted",
                  source, kMaxLayers);
    }
    network.layers.push_back(*std::move(layer));
  }
  if (network.layers.empty()) {
    return Fail(Code::kInvalidArgument,
                "{}: there is no row; one or more convolutions are expected",
                source);
  }
  return network;
}

std::string ToCsv(const Network& network) {
  const auto any = [&](auto test) {
    return std::any_of(network.layers.begin(), network.layers.end(), test);
  };
  const bool dilation = any([](const ConvLayer& layer) {
    return layer.geometry.dilation[1] != 1 || layer.geometry.dilation[2] != 1;
  });
  const bool depth = any(
      [](const ConvLayer& layer) { return layer.geometry.spatial_dims == 3; });
  const bool images =
      any([](const ConvLayer& layer) { return layer.geometry.images != 1; });
  const bool flags = any([&](const ConvLayer& layer) {
    const bool first = &layer == network.layers.data();
    return layer.transposed || layer.needs_input_gradient == first;
  });

  std::string csv = "name";
  const auto header = [&](const auto& columns) {
    for (const Column& column : columns) (csv += ',') += column.name;
  };
  header(kColumns);
  if (dilation) header(kDilationColumns);
  if (depth) header(kDepthColumns);
  if (images) header(kImagesColumn);
  if (flags) {
    for (const std::string_view name : kFlagColumns) (csv += ',') += name;
  }
  csv += '\n';
  for (const ConvLayer& layer : network.layers) {
    ConvGeometry g = layer.geometry;
    const auto fields = [&](const auto& columns, bool empty = false) {
      for (const Column& column : columns) {
        csv += ',';
        if (!empty) csv += std::to_string(column.field(g));
      }
    };
    AppendCsvField(&csv, layer.name);
    fields(kColumns);
    if (dilation) fields(kDilationColumns);
    if (depth) fields(kDepthColumns, g.spatial_dims == 2);
    if (images) fields(kImagesColumn);
    if (flags) {
      csv += layer.transposed ? ",1" : ",0";
      csv += layer.needs_input_gradient ? ",1" : ",0";
    }
    csv += '\n';
  }
  return csv;
}

}  // namespace ucudnn
