#ifndef UCUDNN_BASE_SHARED_VALUE_H_
#define UCUDNN_BASE_SHARED_VALUE_H_

// A value whose copies take no memory of their own, for large values that many
// have alike.
//
//   SharedValue<WorkspacePlan> plan = Made();
//   ranks[0].workspace = plan;
//   ranks[1].workspace = plan;               // the same object
//   ranks[1].workspace.Own().batch = other;  // now a copy

#include <memory>
#include <utility>

namespace ucudnn {

// Never empty. As thread-safe as a value: the object that copies share is not
// changed.
template <class T>
class SharedValue {
 public:
  SharedValue() : value_(Default()) {}
  // Implicit, so that it is assigned like the value itself.
  SharedValue(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  operator const T&() const { return *value_; }

  // A copy that nobody shares yet, to be changed.
  T& Own() {
    auto own = std::make_shared<T>(*value_);
    T& value = *own;
    value_ = std::move(own);
    return value;
  }

  friend bool operator==(const SharedValue& a, const SharedValue& b) {
    return a.value_ == b.value_ || *a.value_ == *b.value_;
  }

 private:
  static const std::shared_ptr<const T>& Default() {
    static const auto value = std::make_shared<const T>();
    return value;
  }

  std::shared_ptr<const T> value_;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SHARED_VALUE_H_
